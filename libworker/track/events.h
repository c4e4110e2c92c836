/* TensorBoard's event files: records of length, masked CRC-32C of it, an Event message, masked
 * CRC-32C of that. Sources: tensorflow/core/lib/io/record_writer.cc,
 * tensorflow/core/util/event.proto and framework/summary.proto (scalars only). One thread.
 */
#ifndef TRACK_EVENTS_H
#define TRACK_EVENTS_H

#include <stdint.h>
#include <stdio.h>

#include "common/base/error.h"

/* Make `folder` if it does not exist, and a new file in it with the version record. The caller
 * closes the file. WK_EINVAL for a name that is too long, else the code of errno. */
int events_open(const char *folder, FILE **ret, struct error *err);

struct events_scalar {
    double wall_s;
    int64_t step;
    const char *name;
    double value; /* written as float */
};
int events_scalar(FILE *file, const struct events_scalar *scalar); /* WK_EIO */

#endif
