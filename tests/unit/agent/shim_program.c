/* The shim alone, for tests of the supervisor. */
#include "agent/supervisor/shim.h"

int main(int argc, char **argv)
{
    return shim_main(argc - 1, argv + 1);
}
