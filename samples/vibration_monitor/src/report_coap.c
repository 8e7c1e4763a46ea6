/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST coap://server/vibration with the new state in JSON, confirmable: RFC 7252, sections 4.2 and
 * 5.8.2.
 */
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <zephyr/kernel.h>
#include <zephyr/logging/log.h>
#include <zephyr/net/coap.h>
#include <zephyr/net/socket.h>
#include <zephyr/random/random.h>

#ifdef CONFIG_LTE_LINK_CONTROL
#include <modem/lte_lc.h>
#include <modem/nrf_modem_lib.h>
#endif

LOG_MODULE_DECLARE(vibration, CONFIG_VIBRATION_LOG_LEVEL);

#define PRIORITY       K_PRIO_PREEMPT(10)
#define PACKET_BYTES   192
#define ACK_TIMEOUT_MS 2000
#define MAX_RETRANSMIT 4
#define RETRY          K_SECONDS(10)

K_MSGQ_DEFINE(reports, sizeof(struct monitor_result), 4, 4);

void report_state(const struct monitor_result *result)
{
	struct monitor_result oldest;

	while (k_msgq_put(&reports, result, K_NO_WAIT) != 0) {
		(void)k_msgq_get(&reports, &oldest, K_NO_WAIT);
	}
}

/*
 * The modem's link, where there is one; Zephyr's own network is up by CONFIG_NET_CONFIG_SETTINGS.
 */
static int link_up(void)
{
#ifdef CONFIG_LTE_LINK_CONTROL
	int result = nrf_modem_lib_init();

	return result != 0 ? result : lte_lc_connect();
#else
	return 0;
#endif
}

static int open_socket(void)
{
	struct sockaddr_in server = {.sin_family = AF_INET,
				     .sin_port = htons(CONFIG_VIBRATION_COAP_PORT)};
	int socket;

	if (zsock_inet_pton(AF_INET, CONFIG_VIBRATION_COAP_SERVER, &server.sin_addr) != 1) {
		LOG_ERR("%s: not an IPv4 address", CONFIG_VIBRATION_COAP_SERVER);
		return -EINVAL;
	}
	socket = zsock_socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP);
	if (socket >= 0 && zsock_connect(socket, (struct sockaddr *)&server, sizeof(server)) != 0) {
		int result = -errno;

		zsock_close(socket);
		return result;
	}
	return socket >= 0 ? socket : -errno;
}

static int make_packet(struct coap_packet *packet, uint8_t *data,
		       const struct monitor_result *report)
{
	char payload[96];
	int length = snprintf(payload, sizeof(payload),
			      "{\"state\":\"%s\",\"percent\":%u,\"window\":%u,\"model\":\"%s\"}",
			      vibration_labels[report->state], report->percent,
			      (unsigned int)report->window, vibration_sha256());
	int result = coap_packet_init(packet, data, PACKET_BYTES, COAP_VERSION_1, COAP_TYPE_CON,
				      COAP_TOKEN_MAX_LEN, coap_next_token(), COAP_METHOD_POST,
				      coap_next_id());

	if (result == 0) {
		result = coap_packet_append_option(packet, COAP_OPTION_URI_PATH,
						   CONFIG_VIBRATION_COAP_PATH,
						   strlen(CONFIG_VIBRATION_COAP_PATH));
	}
	if (result == 0) {
		result = coap_append_option_int(packet, COAP_OPTION_CONTENT_FORMAT,
						COAP_CONTENT_FORMAT_APP_JSON);
	}
	if (result == 0) {
		result = coap_packet_append_payload_marker(packet);
	}
	return result != 0 ? result
			   : coap_packet_append_payload(packet, payload,
							MIN(length, sizeof(payload) - 1));
}

/*
 * Whether an acknowledgement of message `id` comes within `timeout_ms`. Others on the way are not
 * for this report.
 */
static bool acknowledged(int socket, uint16_t id, int timeout_ms)
{
	int64_t end = k_uptime_get() + timeout_ms;
	struct zsock_pollfd wanted = {.fd = socket, .events = ZSOCK_POLLIN};
	struct coap_packet reply;
	uint8_t data[PACKET_BYTES];

	for (int64_t left = timeout_ms; left > 0; left = end - k_uptime_get()) {
		int events = zsock_poll(&wanted, 1, left);
		int length = events > 0 ? zsock_recv(socket, data, sizeof(data), 0) : events;

		if (length < 0) {
			/* A refusal, say: the server may be there when the time is over. */
			k_msleep(MAX(end - k_uptime_get(), 0));
			break;
		}
		if (length > 0 && coap_packet_parse(&reply, data, length, NULL, 0) == 0 &&
		    coap_header_get_id(&reply) == id &&
		    coap_header_get_type(&reply) == COAP_TYPE_ACK) {
			return true;
		}
	}
	return false;
}

static int post(int socket, const struct monitor_result *report)
{
	static uint8_t data[PACKET_BYTES];
	struct coap_packet packet;
	int result = make_packet(&packet, data, report);
	int timeout_ms = ACK_TIMEOUT_MS + sys_rand32_get() % (ACK_TIMEOUT_MS / 2);

	if (result != 0) {
		return result;
	}
	for (int attempt = 0; attempt <= MAX_RETRANSMIT; attempt++, timeout_ms *= 2) {
		if (zsock_send(socket, packet.data, packet.offset, 0) < 0) {
			return -errno;
		}
		if (acknowledged(socket, coap_header_get_id(&packet), timeout_ms)) {
			return 0;
		}
	}
	return -ETIMEDOUT;
}

static int wait_for_socket(void)
{
	int socket = open_socket();

	while (socket < 0) {
		LOG_ERR("no socket (%d)", socket);
		k_sleep(RETRY);
		socket = open_socket();
	}
	return socket;
}

static void report(void *a, void *b, void *c)
{
	struct monitor_result next;
	int socket;

	ARG_UNUSED(a);
	ARG_UNUSED(b);
	ARG_UNUSED(c);
	for (int result = link_up(); result != 0; result = link_up()) {
		LOG_ERR("no network (%d)", result);
		k_sleep(RETRY);
	}
	socket = wait_for_socket();
	while (true) {
		k_msgq_get(&reports, &next, K_FOREVER);
		for (int result = post(socket, &next); result != 0; result = post(socket, &next)) {
			LOG_ERR("%s is not reported yet (%d)", vibration_labels[next.state],
				result);
			k_sleep(RETRY);
			zsock_close(socket);
			socket = wait_for_socket();
		}
		LOG_INF("reported: %s", vibration_labels[next.state]);
	}
}

K_THREAD_DEFINE(reporter, CONFIG_VIBRATION_REPORT_STACK_SIZE, report, NULL, NULL, NULL, PRIORITY, 0,
		0);
