# Without optimization there are no checked string functions.
set(ZABRA_UNOPTIMIZED -O0 -U_FORTIFY_SOURCE)

# zabra_library(NAME [COMPUTES] [SOURCES...] [LINK libs...]): one static library per folder. With sanitizers
# only those are optimized in which tests spend their time: for the others it takes longer than it saves.
function(zabra_library name)
  cmake_parse_arguments(ARG "COMPUTES" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  zabra_flags(${name})
  if(NOT ARG_COMPUTES AND ZABRA_SANITIZE AND NOT ZABRA_FUZZ)
    target_compile_options(${name} PRIVATE ${ZABRA_UNOPTIMIZED})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# Gives a target the warning set, the include root and the sanitizer flags.
function(zabra_flags name)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE ZABRA_VERSION="${PROJECT_VERSION}")
  target_compile_options(${name} PRIVATE ${ZABRA_WARNINGS} ${ZABRA_COMPILE_FLAGS})
  target_link_options(${name} PUBLIC ${ZABRA_LINK_FLAGS})
endfunction()
