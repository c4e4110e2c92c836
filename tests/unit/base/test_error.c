#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "common/base/error.h"

Test(error, names_codes_and_statuses_agree)
{
    cr_assert_str_eq(error_name(0), "OK");
    cr_assert_str_eq(error_name(E_NOT_FOUND), "NOT_FOUND");
    cr_assert_str_eq(error_name(-999), "UNKNOWN");
    cr_assert_eq(error_from_name("UNAUTHENTICATED"), E_UNAUTHENTICATED);
    cr_assert_eq(error_from_name("nonsense"), E_UNKNOWN);
    cr_assert_eq(error_http_status(0), 200);
    cr_assert_eq(error_http_status(E_ALREADY_EXISTS), 409);
    cr_assert_eq(error_http_status(-999), 500);
}

Test(error, every_level_adds_its_context)
{
    struct error err;
    cr_assert_eq(error_errno(&err, ENOENT, "open %s", "a.yaml"), E_NOT_FOUND);
    cr_assert_eq(error_wrap(&err, "job %d", 7), E_NOT_FOUND);
    cr_assert_str_eq(err.text, "job 7: open a.yaml: No such file or directory");
    error_field(&err, "spec.%s", "nodes");
    error_hint(&err, "try %s", "again");
    cr_assert_str_eq(err.field, "spec.nodes");
    cr_assert_str_eq(err.hint, "try again");
    error_set(&err, E_INTERNAL, "new");
    cr_assert_str_eq(err.field, "", "a new error forgets the old one's field");
}

Test(error, a_null_error_only_loses_the_sentence)
{
    cr_assert_eq(error_set(NULL, E_ABORTED, "x"), E_ABORTED);
    cr_assert_eq(error_errno(NULL, ENOSPC, "x"), E_RESOURCE_EXHAUSTED);
    cr_assert_eq(error_wrap(NULL, "x"), E_UNKNOWN);
    error_field(NULL, "x");
    error_hint(NULL, "x");
}

Test(error, long_sentences_are_cut_and_stay_terminated)
{
    struct error err;
    char text[3000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    error_set(&err, E_INTERNAL, "%s", text);
    error_wrap(&err, "%s", text);
    error_wrap(&err, "in");
    cr_assert_eq(strlen(err.text), sizeof(err.text) - 1);
    error_errno(&err, EIO, "%s", text);
    cr_assert_eq(strlen(err.text), sizeof(err.text) - 1);
}
