# cmake --install BUILD [--prefix DIR]: the program, the library with its headers and what pkg-config and
# find_package read, the units, completion, the Python package.
# cpack --config BUILD/CPackConfig.cmake: the same as a Debian package, which brings the libraries it links.
include(CMakePackageConfigHelpers)

if(TARGET muster)
  install(TARGETS muster RUNTIME)
  install(DIRECTORY deploy/systemd/ DESTINATION lib/systemd/system FILES_MATCHING PATTERN "*.service" PATTERN "*.socket")
  install(FILES deploy/systemd/muster.sysusers DESTINATION lib/sysusers.d RENAME muster.conf)
  install(FILES deploy/prometheus/muster.rules.yml deploy/prometheus/prometheus.yml
    DESTINATION ${CMAKE_INSTALL_DATADIR}/muster/prometheus)
  # Made by the program itself, when it is installed.
  install(CODE "execute_process(COMMAND $<TARGET_FILE:muster> completion bash
    OUTPUT_FILE ${CMAKE_BINARY_DIR}/completion.bash COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${CMAKE_BINARY_DIR}/completion.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME muster)
endif()

if(TARGET worker-cuda)
  # By its name alone, or in a package of its own: where there is no GPU nobody wants it.
  set_target_properties(worker-cuda PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS worker-cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda EXCLUDE_FROM_ALL)
endif()

if(TARGET worker)
  install(TARGETS worker EXPORT muster LIBRARY)
  install(FILES ${CMAKE_BINARY_DIR}/libworker.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY libworker/include/worker DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

  # pkg-config --libs [--static] muster; find_package(muster) with muster::worker and
  # muster::worker_static. Both find the installed copy from where they lie themselves.
  get_property(needs GLOBAL PROPERTY MUSTER_ARCHIVE_NEEDS)
  list(TRANSFORM needs PREPEND -l OUTPUT_VARIABLE MUSTER_ARCHIVE_FLAGS)
  set(MUSTER_ARCHIVE_FLAGS_LIST "${MUSTER_ARCHIVE_FLAGS}")
  list(JOIN MUSTER_ARCHIVE_FLAGS " " MUSTER_ARCHIVE_FLAGS)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/muster)
  set(pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH MUSTER_PREFIX_FROM_PC /prefix/${pkgconfig} /prefix)
  configure_file(cmake/muster.pc.in ${CMAKE_BINARY_DIR}/muster.pc @ONLY)
  configure_package_config_file(cmake/muster-config.cmake.in ${CMAKE_BINARY_DIR}/muster-config.cmake
    INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
  if(PROJECT_VERSION_MAJOR EQUAL 0) # as the SONAME
    set(compatible SameMinorVersion)
  else()
    set(compatible SameMajorVersion)
  endif()
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/muster-config-version.cmake
    COMPATIBILITY ${compatible})
  install(FILES ${CMAKE_BINARY_DIR}/muster.pc DESTINATION ${pkgconfig})
  install(FILES ${CMAKE_BINARY_DIR}/muster-config.cmake ${CMAKE_BINARY_DIR}/muster-config-version.cmake
    DESTINATION ${package})
  install(EXPORT muster NAMESPACE muster:: FILE muster-targets.cmake DESTINATION ${package})
endif()

# For the system's Python; docs/python.md has the way into a virtual environment.
install(DIRECTORY python/muster DESTINATION lib/python3/dist-packages
  FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "Muster's authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains models on many devices and machines as if they were one")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # packages of programs that link libworker depend on this one
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/postinst)

# The module in a package beside the other, whose build it must be of. dpkg-shlibdeps would refuse it: no package of Debian
# has cuBLASLt, which comes with a toolkit, or with NVIDIA's package of it.
if(TARGET worker-cuda)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENTS_ALL Unspecified cuda)
  set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME muster)
  set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_CONTROL_EXTRA ${CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA})
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA)
  set(CPACK_DEBIAN_CUDA_PACKAGE_NAME libworker-cuda)
  set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_DEBIAN_CUDA_PACKAGE_GENERATE_SHLIBS OFF)
  set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "muster (= ${PROJECT_VERSION}), libc6")
  set(CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS "libcublas-${MUSTER_CUDA_DASHED}")
  set(CPACK_DEBIAN_CUDA_DESCRIPTION "GPUs for programs that train with Muster
 It needs an NVIDIA driver for CUDA ${MUSTER_CUDA_VERSION} and libcublasLt.so.${MUSTER_CUDA_MAJOR}: of a CUDA toolkit, or of NVIDIA's
 package libcublas-${MUSTER_CUDA_DASHED}. Several GPUs exchange data by NCCL 2.28 or later, if there is one.")
endif()
include(CPack)
