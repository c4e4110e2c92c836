# cmake --install BUILD [--prefix DIR]: the program, the library with its headers, the units, completion.
# cpack --config BUILD/CPackConfig.cmake: the same as a Debian package, which brings the libraries it links.
include(GNUInstallDirs)

if(TARGET muster)
  install(TARGETS muster RUNTIME)
  install(DIRECTORY deploy/systemd/ DESTINATION lib/systemd/system FILES_MATCHING PATTERN "*.service")
  install(FILES deploy/systemd/muster.sysusers DESTINATION lib/sysusers.d RENAME muster.conf)
  install(FILES deploy/prometheus/muster.rules.yml deploy/prometheus/prometheus.yml
    DESTINATION ${CMAKE_INSTALL_DATADIR}/muster/prometheus)
  # Made by the program itself, when it is installed.
  install(CODE "execute_process(COMMAND $<TARGET_FILE:muster> completion bash
    OUTPUT_FILE ${CMAKE_BINARY_DIR}/completion.bash COMMAND_ERROR_IS_FATAL ANY)")
  install(FILES ${CMAKE_BINARY_DIR}/completion.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME muster)
endif()

if(TARGET worker)
  install(TARGETS worker LIBRARY)
  install(FILES ${CMAKE_BINARY_DIR}/libworker.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY libworker/include/worker DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "Muster's authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains models on many devices and machines as if they were one")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/postinst)
include(CPack)
