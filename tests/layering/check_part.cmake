# Tries the includes of one part (SETTINGS: part, compiler, flags, visible, hidden; SCRATCH: a folder to write in). Every hidden
# header must be reported as not found; one file that includes every visible header must compile: without that control, a test
# whose flags are wrong would pass.
include("${SETTINGS}")
file(MAKE_DIRECTORY "${SCRATCH}")

function(compile file text result_variable output_variable)
  file(WRITE "${file}" "${text}")
  execute_process(COMMAND "${compiler}" ${flags} -fsyntax-only "${file}" RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  set(${result_variable} "${result}" PARENT_SCOPE)
  set(${output_variable} "${output}" PARENT_SCOPE)
endfunction()

set(text "")
foreach(header IN LISTS visible)
  string(APPEND text "#include \"${header}\"\n")
endforeach()
compile("${SCRATCH}/visible.cpp" "${text}" result output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${part} must be able to include what it stands on, and cannot:\n${output}")
endif()

list(LENGTH hidden count)
foreach(header IN LISTS hidden)
  compile("${SCRATCH}/hidden.cpp" "#include \"${header}\"\n" result output)
  if(result EQUAL 0)
    message(FATAL_ERROR "${part} can include ${header}, which is none of its business (docs/DESIGN.md §2).")
  elseif(NOT output MATCHES "'${header}' file not found|${header}: No such file or directory")
    message(FATAL_ERROR "${part} including ${header} failed for another reason than that it is not there:\n${output}")
  endif()
endforeach()
message(STATUS "${part}: ${count} headers of other parts are out of its reach")
