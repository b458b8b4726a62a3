# Install rules: headers, libraries, the command, a CMake package with a component per part, and ergon.pc.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ergon")
get_property(all_parts GLOBAL PROPERTY ERGON_PARTS)

set(ERGON_CONFIG_PARTS "")
set(pc_libs "")
set(pc_libraries "")
foreach(part IN LISTS all_parts)
  get_property(program GLOBAL PROPERTY ERGON_PART_${part}_PROGRAM)
  if(program)
    if(TARGET ${program})
      set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
      install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
    endif()
    continue()
  endif()

  set_target_properties(ergon_${part} PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS ergon_${part} EXPORT ergon-${part}
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT ergon-${part} NAMESPACE ergon:: DESTINATION "${package_dir}")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/ergon/${part}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/ergon"
    FILES_MATCHING PATTERN "*.hpp")

  get_property(sees GLOBAL PROPERTY ERGON_PART_${part}_SEES)
  get_property(libraries GLOBAL PROPERTY ERGON_PART_${part}_PUBLIC)
  if(NOT BUILD_SHARED_LIBS)
    # A static library leaves what it needs to whoever links it.
    get_property(private_libraries GLOBAL PROPERTY ERGON_PART_${part}_PRIVATE)
    list(APPEND libraries ${private_libraries})
  endif()
  list(APPEND pc_libraries ${libraries})
  string(REPLACE ";" " " sees "${sees}")
  string(REPLACE ";" " " libraries "${libraries}")
  string(APPEND ERGON_CONFIG_PARTS
    "list(APPEND _ergon_parts ${part})\nset(_ergon_${part}_sees ${sees})\nset(_ergon_${part}_libraries ${libraries})\n")
  get_target_property(type ergon_${part} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    string(PREPEND pc_libs "-lergon_${part} ")
  endif()
endforeach()

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/ergonConfig.cmake.in" "${PROJECT_BINARY_DIR}/ergonConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
# Before 1.0 a minor release may break both the API and the ABI.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/ergonConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/ergonConfig.cmake" "${PROJECT_BINARY_DIR}/ergonConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/ErgonDependencies.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindxxHash.cmake"
  DESTINATION "${package_dir}")

list(REMOVE_DUPLICATES pc_libraries)
set(pc_requires "")
foreach(library IN LISTS pc_libraries)
  ergon_find(${library})
  if(ERGON_PKGCONFIG_${library})
    string(APPEND pc_requires "${ERGON_PKGCONFIG_${library}} ")
  elseif(ERGON_LIBS_${library})
    string(APPEND pc_libs "${ERGON_LIBS_${library}} ")
  endif()
endforeach()
string(STRIP "${pc_requires}" ERGON_PC_REQUIRES)
string(STRIP "${pc_libs}" ERGON_PC_LIBS)
set(ERGON_PC_COROUTINE_FLAGS "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(ERGON_PC_COROUTINE_FLAGS -fcoro-aligned-allocation)
endif()
file(RELATIVE_PATH ERGON_PC_PREFIX
  "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/ergon.pc.in" "${PROJECT_BINARY_DIR}/ergon.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/ergon.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
