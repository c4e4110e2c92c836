/* What this build is; both words come from CMake. */
#ifndef CLI_VERSION_H
#define CLI_VERSION_H

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "0.0.0"
#endif
#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

#endif
