# MUSTER_VERSION from the one place that says it, the header that programs see.
file(STRINGS libworker/include/worker/version.h lines REGEX "^#define WK_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$")
string(REGEX REPLACE "#define WK_VERSION_[A-Z]+ " "" MUSTER_VERSION "${lines}")
string(REPLACE ";" "." MUSTER_VERSION "${MUSTER_VERSION}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS libworker/include/worker/version.h)
