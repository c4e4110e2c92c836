#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/crc32c.h"
#include "common/base/str.h"
#include "libworker/track/events.h"

enum { MESSAGE_MAX = 256, NAME_MAX_BYTES = 128 };

struct message {
    unsigned char bytes[MESSAGE_MAX];
    size_t size;
};

static void put(struct message *m, const void *bytes, size_t size)
{
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

static void put_varint(struct message *m, uint64_t value)
{
    do {
        unsigned char byte = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        put(m, &byte, 1);
        value >>= 7;
    } while (value);
}

/* Field numbers with their wire types: 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes.
 */
static void put_key(struct message *m, unsigned field, unsigned type)
{
    put_varint(m, field << 3 | type);
}

static void put_bytes(struct message *m, unsigned field, const void *bytes, size_t size)
{
    put_key(m, field, 2);
    put_varint(m, size);
    put(m, bytes, size);
}

static uint32_t masked(const void *bytes, size_t size)
{
    uint32_t crc = crc32c(0, bytes, size);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static int write_record(FILE *file, const struct message *m)
{
    uint64_t size = m->size;
    uint32_t of_size = masked(&size, sizeof(size)), of_data = masked(m->bytes, m->size);
    bool good = fwrite(&size, sizeof(size), 1, file) == 1 &&
                fwrite(&of_size, sizeof(of_size), 1, file) == 1 &&
                fwrite(m->bytes, m->size, 1, file) == 1 &&
                fwrite(&of_data, sizeof(of_data), 1, file) == 1 && fflush(file) == 0;
    return good ? 0 : WK_EIO;
}

static void begin_event(struct message *m, double wall_s)
{
    m->size = 0;
    put_key(m, 1, 1); /* wall_time */
    put(m, &wall_s, sizeof(wall_s));
}

int events_open(const char *folder, FILE **ret, struct error *err)
{
    char path[1024], host[64] = "";
    struct message event;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gethostname(host, sizeof(host) - 1);
    if (str_printf(path, sizeof(path), "%s/events.out.tfevents.%010lld.%s.%d", folder,
                   (long long)now.tv_sec, host, (int)getpid()))
        return error_set(err, WK_EINVAL, "log_tensorboard is too long");
    if (mkdir(folder, 0777) && errno != EEXIST)
        return error_errno(err, errno, "log_tensorboard %s", folder);
    FILE *file = fopen(path, "ae");
    if (!file)
        return error_errno(err, errno, "log_tensorboard %s", path);
    begin_event(&event, (double)now.tv_sec);
    put_bytes(&event, 3, "brain.Event:2", strlen("brain.Event:2")); /* file_version */
    if (write_record(file, &event)) {
        (void)fclose(file);
        return error_set(err, WK_EIO, "log_tensorboard %s refuses to be written", path);
    }
    *ret = file;
    return 0;
}

int events_scalar(FILE *file, const struct events_scalar *scalar)
{
    struct message event, value = {.size = 0}, summary = {.size = 0};
    float number = (float)scalar->value;
    size_t size = strlen(scalar->name);
    put_bytes(&value, 1, scalar->name, size < NAME_MAX_BYTES ? size : NAME_MAX_BYTES); /* tag */
    put_key(&value, 2, 5); /* simple_value */
    put(&value, &number, sizeof(number));
    put_bytes(&summary, 1, value.bytes, value.size);
    begin_event(&event, scalar->wall_s);
    put_key(&event, 2, 0); /* step */
    put_varint(&event, (uint64_t)scalar->step);
    put_bytes(&event, 5, summary.bytes, summary.size);
    return write_record(file, &event);
}
