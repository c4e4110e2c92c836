/* The version of this build; CMake sets both texts. */
#ifndef CLI_VERSION_H
#define CLI_VERSION_H

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "0.0.0"
#endif
#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

#endif
