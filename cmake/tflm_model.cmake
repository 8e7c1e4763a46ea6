# SPDX-License-Identifier: Apache-2.0
#
#   tflm_model(<target> NAME <name> MODEL <file>
#              [KERNELS auto|reference|cmsis_nn] [ARENA <bytes>] [ARENA_SECTION <section>]
#              [PLAN packed|online|static] [PLAN_FILE <file>] [IN_PLACE on|off] [ORDER auto|model]
#              [BACKEND interpreter|compiled|auto] [ROWS on|off] [STREAM_INPUT on|off]
#              [RAM <bytes>] [SLOWER <percent>]
#              [LABELS <file>])
#
# Builds the .tflite model <file> as a static library, and links it to <target> with the headers <name>.h for C and
# <name>.hpp for C++. Files are relative to the current source folder. docs/module.md explains the arguments.
#
# TFLM_ZEPHYR_PYTHON names the Python that has zephyr/requirements.txt; Zephyr's own by default.

include_guard(GLOBAL)

function(tflm_model target)
  cmake_parse_arguments(PARSE_ARGV 1 arg ""
    "NAME;MODEL;KERNELS;ARENA;ARENA_SECTION;PLAN;PLAN_FILE;IN_PLACE;ORDER;BACKEND;ROWS;STREAM_INPUT;RAM;SLOWER;LABELS"
    "")
  if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "tflm_model(${target}): ${arg_UNPARSED_ARGUMENTS} ${arg_KEYWORDS_MISSING_VALUES}: "
      "not an argument, or one without its value")
  endif()
  if(NOT arg_NAME OR NOT arg_MODEL)
    message(FATAL_ERROR "tflm_model(${target}): NAME or MODEL is missing")
  endif()
  set(call "tflm_model(${target} NAME ${arg_NAME})")
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${call}: there is no target ${target}")
  endif()
  if(TARGET tflm_model_${arg_NAME})
    message(FATAL_ERROR "${call}: there is a model of that name already")
  endif()
  tflm_zephyr_check("${call}")

  get_filename_component(top ${CMAKE_CURRENT_FUNCTION_LIST_DIR} DIRECTORY)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/tflm_zephyr/${arg_NAME})
  tflm_zephyr_arguments(arguments inputs)
  if(NOT TFLM_ZEPHYR_PYTHON)
    set(TFLM_ZEPHYR_PYTHON ${PYTHON_EXECUTABLE})
  endif()
  set(generate ${TFLM_ZEPHYR_PYTHON} ${top}/cmake/generator.py library ${arguments})
  # Once here, as CMake has to know the sources.
  execute_process(COMMAND ${generate} OUTPUT_VARIABLE said ERROR_VARIABLE error RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(error MATCHES "ModuleNotFoundError|ImportError")
    message(FATAL_ERROR "${call}: ${TFLM_ZEPHYR_PYTHON} lacks the generator's packages. Run: "
      "${TFLM_ZEPHYR_PYTHON} -m pip install -r ${top}/zephyr/requirements.txt\n${error}")
  elseif(failed)
    message(FATAL_ERROR "${call}: ${error}")
  endif()
  string(REPLACE "\n" "\n--   " said "${said}")
  message(STATUS "${said}")

  include(${out}/library.cmake)
  tflm_zephyr_track("${call}")
  tflm_zephyr_core("${call}")
  tflm_zephyr_library(${target})
endfunction()

# What an application needs before it can have a model.
function(tflm_zephyr_check call)
  if(NOT CONFIG_TFLM_ZEPHYR)
    message(FATAL_ERROR "${call}: set CONFIG_TFLM_ZEPHYR=y in prj.conf")
  endif()
  if(CONFIG_TENSORFLOW_LITE_MICRO)
    message(FATAL_ERROR "${call}: CONFIG_TENSORFLOW_LITE_MICRO=y would bring in TFLM a second time, compiled "
      "differently. Set it to n")
  endif()
  if(NOT ZEPHYR_TFLITE_MICRO_MODULE_DIR OR NOT EXISTS "${ZEPHYR_TFLITE_MICRO_MODULE_DIR}")
    message(FATAL_ERROR "${call}: this workspace has no tflite-micro module. Take it in with:\n"
      "  west config manifest.group-filter -- +optional && west update tflite-micro")
  endif()
endfunction()

# CMSIS-NN's kernels plan by the core's extensions; those of the other cores are alike.
function(tflm_zephyr_core_name result)
  set(core ${ARCH})
  if(CONFIG_ARMV8_1_M_MVEI OR CONFIG_ARMV8_1_M_MVEF)
    set(core cortex-m55)
  elseif(CONFIG_CPU_CORTEX_M4)
    set(core cortex-m4)
  elseif(CONFIG_CPU_CORTEX_M7)
    set(core cortex-m7)
  elseif(CONFIG_ARMV8_M_DSP)
    set(core cortex-m33)
  elseif(CONFIG_CPU_CORTEX_M33)
    set(core cortex-m33+nodsp)
  elseif(CONFIG_CPU_CORTEX_M0 OR CONFIG_CPU_CORTEX_M0PLUS)
    set(core cortex-m0)
  elseif(CONFIG_CPU_CORTEX_M)
    set(core cortex-m3)
  endif()
  set(${result} ${core} PARENT_SCOPE)
endfunction()

# The generator's arguments for the call of tflm_model() whose arg_... variables are set, and the files it reads.
function(tflm_zephyr_arguments arguments inputs)
  foreach(file MODEL PLAN_FILE LABELS)
    if(arg_${file})
      get_filename_component(${file} ${arg_${file}} ABSOLUTE)
      list(APPEND files ${${file}})
    endif()
  endforeach()
  tflm_zephyr_core_name(core)
  set(list ${MODEL} -o ${out} --name ${arg_NAME} --core ${core}
    --zephyr-base ${ZEPHYR_BASE} --tflm-dir ${ZEPHYR_TFLITE_MICRO_MODULE_DIR})
  if(ZEPHYR_CMSIS_NN_MODULE_DIR AND EXISTS "${ZEPHYR_CMSIS_NN_MODULE_DIR}")
    list(APPEND list --cmsis-nn-dir ${ZEPHYR_CMSIS_NN_MODULE_DIR})
  endif()
  # Unless Kconfig says otherwise, the backend is the one that ROWS, STREAM_INPUT, RAM and SLOWER imply.
  foreach(choice KERNELS PLAN BACKEND)
    string(TOLOWER ${choice} option)
    if(NOT arg_${choice})
      foreach(value AUTO REFERENCE CMSIS_NN PACKED ONLINE STATIC INTERPRETER COMPILED)
        if(CONFIG_TFLM_ZEPHYR_${choice}_${value})
          string(TOLOWER ${value} arg_${choice})
        endif()
      endforeach()
    endif()
    if(arg_${choice})
      list(APPEND list --${option} ${arg_${choice}})
    endif()
  endforeach()
  if(arg_ROWS)
    list(APPEND list --rows)
  endif()
  if(arg_STREAM_INPUT)
    list(APPEND list --stream-input)
  endif()
  foreach(budget RAM SLOWER)
    string(TOLOWER ${budget} option)
    if(DEFINED arg_${budget})
      list(APPEND list --${option} ${arg_${budget}})
    endif()
  endforeach()
  if(NOT DEFINED arg_IN_PLACE)
    set(arg_IN_PLACE ${CONFIG_TFLM_ZEPHYR_IN_PLACE})
  endif()
  if(NOT arg_IN_PLACE)
    list(APPEND list --overlap off)
  endif()
  if(NOT DEFINED arg_ARENA_SECTION)
    set(arg_ARENA_SECTION ${CONFIG_TFLM_ZEPHYR_ARENA_SECTION})
  endif()
  if(arg_ARENA_SECTION)
    list(APPEND list --arena-section ${arg_ARENA_SECTION})
  endif()
  if(arg_ARENA)
    list(APPEND list --arena ${arg_ARENA})
  elseif(CONFIG_64BIT AND NOT arg_BACKEND STREQUAL "compiled")
    message(FATAL_ERROR "${call}: the sizes of TFLM's records are not known for 64 bits. Give ARENA; "
      "${arg_NAME}_arena() says what is used of it")
  endif()
  if(arg_ORDER)
    list(APPEND list --order ${arg_ORDER})
  endif()
  if(arg_PLAN_FILE)
    list(APPEND list --plan-file ${PLAN_FILE})
  endif()
  if(arg_LABELS)
    list(APPEND list --labels ${LABELS})
  endif()
  if(CONFIG_TFLM_ZEPHYR_DEBUG)
    list(APPEND list --debug)
  endif()
  set(${arguments} ${list} PARENT_SCOPE)
  set(${inputs} ${files} PARENT_SCOPE)
endfunction()

# Runs the generator again when the model changes. It touches no file whose content stays the same. Ninja brings
# library.cmake up to date before it asks whether CMake has to run; make cannot, so there CMake runs at once.
function(tflm_zephyr_track call)
  file(GLOB_RECURSE generator ${top}/tflm_zephyr/*.py ${top}/tflm_zephyr/data/* ${top}/templates/*.j2
    ${top}/templates/*.jinja)
  if(CMAKE_GENERATOR MATCHES "Ninja")
    list(TRANSFORM TFLM_MODEL_FILES PREPEND ${out}/)
    add_custom_command(OUTPUT ${TFLM_MODEL_FILES} COMMAND ${generate} DEPENDS ${inputs} ${generator}
      COMMENT "Generating ${arg_NAME} from ${arg_MODEL}" VERBATIM)
    # A target without dependencies: in the library alone, the command would wait for all that the library links to.
    add_custom_target(tflm_model_${arg_NAME}_files DEPENDS ${TFLM_MODEL_FILES})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${out}/library.cmake)
  else()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs} ${generator})
  endif()
  # In-place operators hold for the kernels of the commits that are checked out.
  foreach(module ${ZEPHYR_TFLITE_MICRO_MODULE_DIR} ${ZEPHYR_CMSIS_NN_MODULE_DIR})
    if(EXISTS ${module}/.git/HEAD)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${module}/.git/HEAD)
    endif()
  endforeach()
endfunction()

# TFLM and CMSIS-NN, each source once, as the models of the application need them. Nothing of them is seen outside of
# the models' libraries.
function(tflm_zephyr_core call)
  if(NOT TARGET tflm_zephyr_core)
    add_library(tflm_zephyr_core STATIC ${out}/src/port.cpp)
    list(TRANSFORM TFLM_MODEL_TFLM_INCLUDE_DIRS PREPEND ${ZEPHYR_TFLITE_MICRO_MODULE_DIR}/)
    target_include_directories(tflm_zephyr_core SYSTEM PUBLIC ${TFLM_MODEL_TFLM_INCLUDE_DIRS})
    # As TFLM's own Makefile has it: no heap, smaller tensor structs; without debug no messages and no asserts.
    target_compile_definitions(tflm_zephyr_core PUBLIC TF_LITE_STATIC_MEMORY)
    if(NOT CONFIG_TFLM_ZEPHYR_DEBUG)
      target_compile_definitions(tflm_zephyr_core PUBLIC TF_LITE_STRIP_ERROR_STRINGS NDEBUG)
    endif()
    target_compile_options(tflm_zephyr_core PRIVATE -w)
    tflm_zephyr_cxx(tflm_zephyr_core ${out}/src/port.cpp)
    target_link_libraries(tflm_zephyr_core PRIVATE zephyr_interface)
    if(TARGET zephyr_generated_headers)
      add_dependencies(tflm_zephyr_core zephyr_generated_headers)
    endif()
    set_property(GLOBAL PROPERTY TFLM_ZEPHYR_KERNELS ${TFLM_MODEL_KERNELS})
    set_property(GLOBAL PROPERTY TFLM_ZEPHYR_FIRST ${arg_NAME})
    if(TFLM_MODEL_KERNELS STREQUAL cmsis_nn)
      tflm_zephyr_cmsis_nn()
    endif()
  endif()
  get_property(kernels GLOBAL PROPERTY TFLM_ZEPHYR_KERNELS)
  get_property(first GLOBAL PROPERTY TFLM_ZEPHYR_FIRST)
  if(NOT kernels STREQUAL TFLM_MODEL_KERNELS)
    message(FATAL_ERROR "${call} has ${TFLM_MODEL_KERNELS} kernels, and ${first} has ${kernels}. One application has "
      "one kernel library: give all models KERNELS reference, or KERNELS cmsis_nn")
  endif()
  tflm_zephyr_add(tflm_zephyr_core ${ZEPHYR_TFLITE_MICRO_MODULE_DIR} added ${TFLM_MODEL_TFLM_SOURCES})
  tflm_zephyr_cxx(tflm_zephyr_core ${added})
  if(TARGET tflm_zephyr_cmsis_nn)
    tflm_zephyr_add(tflm_zephyr_cmsis_nn ${ZEPHYR_CMSIS_NN_MODULE_DIR} added ${TFLM_MODEL_CMSIS_NN_SOURCES})
    # On the sources, as these options come after Zephyr's own level of optimisation.
    set_source_files_properties(${added} TARGET_DIRECTORY tflm_zephyr_cmsis_nn PROPERTIES COMPILE_OPTIONS "-Ofast;-w")
  endif()
endfunction()

function(tflm_zephyr_cmsis_nn)
  add_library(tflm_zephyr_cmsis_nn STATIC)
  target_include_directories(tflm_zephyr_cmsis_nn SYSTEM PUBLIC
    ${ZEPHYR_CMSIS_NN_MODULE_DIR} ${ZEPHYR_CMSIS_NN_MODULE_DIR}/Include)
  target_link_libraries(tflm_zephyr_cmsis_nn PRIVATE zephyr_interface)
  target_compile_definitions(tflm_zephyr_core PUBLIC CMSIS_NN)
  target_link_libraries(tflm_zephyr_core PUBLIC tflm_zephyr_cmsis_nn)
endfunction()

# Adds those of the sources below `folder` that `library` does not have yet: the list `result`.
function(tflm_zephyr_add library folder result)
  set(sources ${ARGN})
  list(TRANSFORM sources PREPEND ${folder}/)
  get_target_property(there ${library} SOURCES)
  if(there)
    list(REMOVE_ITEM sources ${there})
  endif()
  target_sources(${library} PRIVATE ${sources})
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# TFLM is C++17 whatever the application is; on the sources, as these options come after Zephyr's own. Guards of
# function-local statics would bring in the whole of C++ exceptions, and no thread shares such a variable.
function(tflm_zephyr_cxx library)
  set(options -fno-threadsafe-statics)
  if(NOT CONFIG_STD_CPP_VERSION GREATER_EQUAL 201703)
    list(PREPEND options -std=c++17)
  endif()
  set(sources ${ARGN})
  list(FILTER sources INCLUDE REGEX "\\.(cc|cpp)$")
  if(sources)
    set_source_files_properties(${sources} TARGET_DIRECTORY ${library} PROPERTIES COMPILE_OPTIONS "${options}")
  endif()
endfunction()

# The model's own library.
function(tflm_zephyr_library target)
  set(library tflm_model_${arg_NAME})
  list(TRANSFORM TFLM_MODEL_SOURCES PREPEND ${out}/)
  add_library(${library} STATIC ${TFLM_MODEL_SOURCES})
  target_include_directories(${library} PUBLIC ${out}/include PRIVATE ${out}/src)
  target_link_libraries(${library} PRIVATE tflm_zephyr_core zephyr_interface)
  tflm_zephyr_cxx(${library} ${TFLM_MODEL_SOURCES})
  if(TARGET ${library}_files)
    add_dependencies(${library} ${library}_files)
  endif()
  set(data ${out}/src/models/${arg_NAME}.tflite)
  set_source_files_properties(${out}/src/models/${arg_NAME}_data.S TARGET_DIRECTORY ${library} PROPERTIES
    COMPILE_DEFINITIONS "TFLM_MODEL_FILE=\"${data}\"" OBJECT_DEPENDS "${data}")
  set(weights ${out}/src/models/${arg_NAME}_weights.bin)
  set_source_files_properties(${out}/src/models/${arg_NAME}_weights.S TARGET_DIRECTORY ${library} PROPERTIES
    COMPILE_DEFINITIONS "TFLM_WEIGHTS_FILE=\"${weights}\"" OBJECT_DEPENDS "${weights}")
  target_link_libraries(${target} PRIVATE ${library})
endfunction()
