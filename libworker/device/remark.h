/* Sentences about a device's work, each given once: which kernels it chose, and why. The device
 * keeps them for those that ask later. The device's thread. */
#ifndef DEVICE_REMARK_H
#define DEVICE_REMARK_H

struct device;

enum { REMARKS_MAX = 32, REMARK_BYTES = 256 };

/* From now on; a NULL call: no listener. `text` is valid during the call. */
void device_listen(struct device *device, void (*call)(void *arg, const char *text), void *arg);

/* No more than REMARKS_MAX sentences, each cut to REMARK_BYTES. Without memory there are none. */
void device_remark(struct device *device, const char *text);

/* The i-th so far; NULL: there is none. */
const char *device_remark_at(const struct device *device, int i);

#endif
