#include "tests/lib/alike/criterion/criterion.h"

int main(int argc, char **argv)
{
    return alike_run(argc, argv);
}
