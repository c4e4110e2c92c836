/* Documents as the first release wrote them, every field said: what is read of them is all there
 * is. A field that was renamed, dropped or made of another kind is lost to whoever upgrades.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/store/document.h"

/* A ledger came later; the one that was not said is empty. */
#define JOB_HEAD                                                                                   \
    "{\"id\":\"j9\",\"sequence\":9,\"state\":\"reforming\","                                       \
    "\"reason\":{\"kind\":\"worker_failed\",\"text\":\"rank 1\",\"node\":\"b\",\"rank\":1,"        \
    "\"hint\":\"look\"},"                                                                          \
    "\"version\":2,\"next_generation\":6,\"next_uid\":7,"                                          \
    "\"current\":{\"generation\":4,\"world\":2,\"published\":true,\"joined\":true,\"open\":true,"  \
    "\"broken\":true,\"master_node\":\"a\",\"master_port\":29400,\"since_ms\":8},"                 \
    "\"forming\":{\"generation\":5,\"world\":1},"                                                  \
    "\"restarts\":9,\"restarts_without_progress\":10,\"progress_step\":11,"                        \
    "\"charged_generation\":3,\"same_cause\":12,\"last_cause\":\"worker_failed 1 0\","             \
    "\"cause_wall_ms\":13,\"backoff_until_ms\":14,\"grow_after_ms\":15,\"grow_failures\":16,"      \
    "\"step\":17,\"total_steps\":18,\"loss\":1.5,\"tokens_per_second\":2.5,\"broken_at_ms\":19,"   \
    "\"broken_at_step\":20,\"recoveries\":21,\"last_recovery_ms\":22,\"stop_deadline_ms\":23,"     \
    "\"runtime_deadline_ms\":24,\"cancel_requested\":true,\"ending\":\"failed\","                  \
    "\"exit_code\":25,\"submitted_wall_ms\":26,\"started_wall_ms\":27,\"ended_wall_ms\":28,"       \
    "\"idempotency_key\":\"k\","
#define JOB_TAIL                                                                                   \
    "\"current_members\":[1,2],\"forming_members\":[3],"                                           \
    "\"workers\":[{\"uid\":1,\"node\":\"a\",\"state\":\"exited\",\"should_stop\":true,"            \
    "\"held\":true,\"aware\":true,\"slot\":3,\"local_rank\":4,\"pid\":5,\"step\":6,"               \
    "\"joined\":4,\"joining\":5,\"endpoint\":\"h:1\",\"broken\":4,\"lost_in\":3,\"born\":2,"       \
    "\"generation\":5,\"rank\":1,"                                                                 \
    "\"exit\":{\"code\":1,\"signal\":9,\"oom\":true,\"lost\":true,\"text\":\"killed\","            \
    "\"last_output\":\"bye\",\"wall_ms\":29}}],"                                                   \
    "\"checkpoints\":[{\"step\":10,\"generation\":4,\"path\":\"/k\",\"wall_ms\":30,"               \
    "\"size_bytes\":31,\"world\":2}]}"
static const char job[] = JOB_HEAD JOB_TAIL;
static const char job_now[] = JOB_HEAD "\"ledger\":{\"phase\":\"queue\"}," JOB_TAIL;

static const char node[] =
    "{\"name\":\"a\",\"state\":\"unreachable\",\"reason\":{\"kind\":\"reported\",\"rank\":-1},"
    "\"incarnation\":\"0xfedcba9876543210\",\"past_0\":5,\"past_7\":\"0x8000000000000000\","
    "\"last_report\":6,\"address\":\"h\",\"version\":\"0.0.1\",\"slots\":4,\"cpus_milli\":500,"
    "\"memory_bytes\":7,\"port_first\":8,\"port_last\":9,\"want_cordon\":true,"
    "\"want_drain\":true,\"joined_wall_ms\":10,\"seen_wall_ms\":11,\"desired_version\":12,"
    "\"labels\":[{\"key\":\"rack\",\"value\":\"r1\"}],"
    "\"gpus\":[{\"index\":1,\"model\":\"m\",\"uuid\":\"u\",\"memory_bytes\":13}]}";

Test(older, every_field_of_a_job_is_read)
{
    struct job *read = calloc(1, sizeof(*read));
    struct buf text;
    struct error err = {0};
    buf_init(&text, DOCUMENT_MAX_BYTES);
    cr_assert_eq(document_read_job(job, strlen(job), read, &err), 0, "%s", err.text);
    cr_assert_eq(document_write_job(read, &text, &err), 0, "%s", err.text);
    cr_expect_str_eq(buf_cstr(&text), job_now);
    buf_fini(&text);
    job_free(read);
}

Test(older, every_field_of_a_node_is_read)
{
    struct node *read = calloc(1, sizeof(*read));
    struct buf text;
    struct error err = {0};
    buf_init(&text, DOCUMENT_MAX_BYTES);
    cr_assert_eq(document_read_node(node, strlen(node), read, &err), 0, "%s", err.text);
    cr_assert_eq(document_write_node(read, &text, &err), 0, "%s", err.text);
    cr_expect_str_eq(buf_cstr(&text), node);
    buf_fini(&text);
    node_free(read);
}
