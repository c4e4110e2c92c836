#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

#include "common/base/assert.h"

Test(assert, insist_aborts_when_broken_even_in_release_builds, .signal = SIGABRT)
{
    freopen("/dev/null", "w", stderr);
    insist(1 + 1 == 3);
}

Test(assert, never_aborts_when_it_happens, .signal = SIGABRT)
{
    freopen("/dev/null", "w", stderr);
    never(1 + 1 == 2);
}

Test(assert, what_holds_passes)
{
    insist(implies(false, false) && implies(false, true) && implies(true, true));
    never(implies(true, false));
}
