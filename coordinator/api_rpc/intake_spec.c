#include "coordinator/api_rpc/intake_spec.h"

#include <string.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/rpc/fields.h"
#include "common/rpc/spec.h"
#include "common/rpc/training.h"
#include "common/rpc/transcode.h"

static const char *text_at(const Muster__JobSpec *message, const char *key)
{
    const ProtobufCFieldDescriptor *field;
    char *const *text = field_at(&message->base, key, &field);
    return text ? *text : NULL;
}

static uint32_t count_at(const Muster__JobSpec *message, const char *key)
{
    const ProtobufCFieldDescriptor *field;
    const uint32_t *count = field_at(&message->base, key, &field);
    return count ? *count : 0;
}

static double number_at(const Muster__JobSpec *message, const char *key)
{
    const ProtobufCFieldDescriptor *field;
    const double *number = field_at(&message->base, key, &field);
    return number ? *number : 0;
}

static const char *const *words_at(const Muster__JobSpec *message, const char *key, int *ret_count)
{
    const ProtobufCFieldDescriptor *field;
    const char *const *const *words = field_at(&message->base, key, &field);
    *ret_count = words ? (int)*field_count(&message->base, field) : 0;
    return words ? *words : NULL;
}

/* The entries of a map<string, string> at the top of the message; NULL without memory. */
static const struct pair *pairs_at(const Muster__JobSpec *message, const char *key,
                                   struct arena *arena, int *ret_count)
{
    const ProtobufCFieldDescriptor *field;
    ProtobufCMessage *const *const *entries = field_at(&message->base, key, &field);
    size_t count = entries ? *field_count(&message->base, field) : 0;
    struct pair *pairs = arena_array(arena, count, sizeof(*pairs));
    for (size_t i = 0; pairs && i < count; i++) {
        const ProtobufCMessage *entry = (*entries)[i];
        const ProtobufCFieldDescriptor *parts = entry->descriptor->fields;
        pairs[i].key = *(char *const *)field_member(entry, &parts[0]);
        pairs[i].value = *(char *const *)field_member(entry, &parts[1]);
    }
    *ret_count = (int)count;
    return pairs;
}

static int intake_training(const Muster__Training *message, struct arena *arena,
                           struct spec_input *input, struct error *err)
{
    struct training_setting *list;
    int count, rc = training_list(message, arena, &list, &count, err);
    struct pair *pairs = rc ? NULL : arena_array(arena, (size_t)count + 1, sizeof(*pairs));
    if (rc)
        return rc;
    if (!pairs)
        return error_set(err, E_RESOURCE_EXHAUSTED, "spec: too large");
    for (int i = 0; i < count; i++)
        pairs[i] = (struct pair){list[i].name, list[i].value};
    input->training = pairs;
    input->training_count = count;
    return 0;
}

static int intake_fields(const Muster__JobSpec *message, struct arena *arena,
                         struct spec_input *input, struct error *err)
{
#define TAKE_TEXT(member, key)   input->member = text_at(message, key);
#define TAKE_COUNT(member, key)  input->member = count_at(message, key);
#define TAKE_NUMBER(member, key) input->member = number_at(message, key);
#define TAKE_WORDS(member, key)  input->member = words_at(message, key, &input->member##_count);
#define TAKE_RANGE(member, key)                                                                    \
    input->member##_min = count_at(message, key ".min");                                           \
    input->member##_max = count_at(message, key ".max");
#define TAKE_PAIRS(member, key)                                                                    \
    input->member = pairs_at(message, key, arena, &input->member##_count);                         \
    if (!input->member)                                                                            \
        return error_set(err, E_RESOURCE_EXHAUSTED, "spec: too large");
#define TAKE_SETTING(member, key)         /* is among the settings */
#define TAKE_SETTINGS(member, key)        /* below: they are fields and a map */
#define TAKE(id, member, shape, key, ...) TAKE_##shape(member, key)
    JOB_FIELDS(TAKE, TAKE)
    return intake_training(message->training, arena, input, err);
}

struct build {
    const Muster__JobSpec *message;
    const char *json;
    bool stored;
    struct buf *meaning; /* from spec_meaning; NULL = not requested */
};

static int build_spec(const struct build *what, struct arena *arena, struct spec **ret,
                      struct error *err)
{
    struct spec_input input = {
        .json = what->json,
        .stored = what->stored,
        .has_restart = what->message->restart,
    };
    int rc = intake_fields(what->message, arena, &input, err);
    if (!rc)
        rc = spec_build(&input, ret, err);
    if (!rc && what->meaning)
        spec_meaning(*ret, &input, what->meaning);
    return rc;
}

static int check_counts(const Muster__JobSpec *message, struct error *err)
{
    if (message->n_command > SPEC_ARGS_MAX || message->n_env > SPEC_ENV_MAX ||
        message->n_constraints > SPEC_LABELS_MAX || message->n_secrets > SPEC_SECRETS_MAX)
        return error_set(err, E_INVALID_ARGUMENT,
                         "spec: at most %d words of command, %d of env, %d constraints, %d secrets",
                         SPEC_ARGS_MAX, SPEC_ENV_MAX, SPEC_LABELS_MAX, SPEC_SECRETS_MAX);
    return 0;
}

static int intake_build(const struct build *what, struct spec **ret, struct error *err)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    int rc = check_counts(what->message, err);
    if (!rc)
        rc = build_spec(what, &arena, ret, err);
    arena_fini(&arena);
    return rc;
}

int intake_stored_spec(const Muster__JobSpec *message, const char *json, struct spec **ret,
                       struct error *err)
{
    const struct build what = {.message = message, .json = json, .stored = true};
    return intake_build(&what, ret, err);
}

static Muster__JobSpec named_spec(const Muster__JobSpec *message, char name[NAME_LENGTH_MAX + 1])
{
    Muster__JobSpec named = *message;
    if (!named.name || !named.name[0]) {
        spec_name_of(message, name, NAME_LENGTH_MAX + 1);
        named.name = name;
    }
    return named;
}

/* As read from the store: what was accepted once is not checked again. */
static bool find_meaning(const Muster__JobSpec *message, struct buf *ret)
{
    struct spec *spec;
    char name[NAME_LENGTH_MAX + 1];
    Muster__JobSpec named = named_spec(message, name);
    const struct build what = {.message = &named, .json = "", .stored = true, .meaning = ret};
    if (intake_build(&what, &spec, NULL))
        return false;
    spec_release(spec);
    return !buf_failed(ret);
}

bool intake_same(const Muster__JobSpec *a, const Muster__JobSpec *b)
{
    struct buf x, y;
    buf_init(&x, 2 * SPEC_TEXT_MAX_BYTES);
    buf_init(&y, 2 * SPEC_TEXT_MAX_BYTES);
    bool same = find_meaning(a, &x) && find_meaning(b, &y) && x.size == y.size &&
                memcmp(x.data, y.data, x.size) == 0;
    buf_fini(&x);
    buf_fini(&y);
    return same;
}

int intake_spec(const Muster__JobSpec *message, struct spec **ret, struct error *err)
{
    struct buf json;
    char name[NAME_LENGTH_MAX + 1];
    Muster__JobSpec named = named_spec(message, name);
    buf_init(&json, SPEC_TEXT_MAX_BYTES);
    int rc = check_counts(message, err);
    if (!rc) {
        rc = transcode_to_json(&named.base, NULL, &json, err);
        if (rc == E_RESOURCE_EXHAUSTED)
            rc = error_set(err, E_INVALID_ARGUMENT, "spec: larger than %d KiB as JSON",
                           SPEC_TEXT_MAX_BYTES >> 10);
    }
    const struct build what = {.message = &named, .json = buf_cstr(&json)};
    if (!rc)
        rc = intake_build(&what, ret, err);
    buf_fini(&json);
    return rc;
}
