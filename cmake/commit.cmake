# Writes the C file OUT with the commit of the sources in TOP: that of git, else that of a source
# tarball, in which git has written it into commit.txt. The file is written only when it changes.
set(commit unknown)
set(seconds 0)
set(modified 0)

file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/commit.txt line LIMIT_COUNT 1)
if(line MATCHES "^([0-9a-f]+) ([0-9]+)$")
  set(commit ${CMAKE_MATCH_1})
  set(seconds ${CMAKE_MATCH_2})
elseif(EXISTS ${TOP}/.git) # Else git would find a repository that surrounds the sources.
  find_program(git git)
  if(git)
    execute_process(COMMAND ${git} -C ${TOP} log -1 --format=%H:%ct OUTPUT_VARIABLE line
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    execute_process(COMMAND ${git} -C ${TOP} --no-optional-locks status --porcelain -uno
                    OUTPUT_VARIABLE changes ERROR_QUIET)
    if(line MATCHES "^([0-9a-f]+):([0-9]+)$")
      set(commit ${CMAKE_MATCH_1})
      set(seconds ${CMAKE_MATCH_2})
    endif()
    if(changes)
      set(modified 1)
    endif()
  endif()
endif()

set(text "/* Written by cmake/commit.cmake. */
#include \"cli/build.h\"

const char build_commit[] = \"${commit}\";
const long long build_commit_s = ${seconds}LL;
const bool build_modified = ${modified};
")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT "${before}" STREQUAL "${text}")
  file(WRITE ${OUT} "${text}")
endif()
