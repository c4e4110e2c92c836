/* `muster coordinator` alone, for tests that need it as a process. */
#include "coordinator/daemon/command.h"

int main(int argc, char **argv)
{
    return coordinator_main(argc - 1, argv + 1);
}
