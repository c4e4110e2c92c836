/* The rehearsal device, for tests: it finds each broken rule of device.h, on the CPU and in one
 * thread. Its kernels are the CPU's. It finds, whatever order the seed draws:
 *
 *     a missing event         two launches that use the same bytes, one of them writing, without
 *                             an order between them; both are named (vector clocks over ranges)
 *     undeclared bytes        written or read by a launch: what it did not declare is protected,
 *                             and what shares a page with declared bytes is checked by content
 *     a wrong use             a read range that is written; a range that is only written but was
 *                             read, or was not written in full
 *     host access             host code that touches device memory, or pinned memory of a copy
 *                             that has not been waited for
 *     undefined content       a read of bytes that no launch has written
 *     turns (slots.h)         a use of a part that is not taken; one that no event orders after the
 *                             leave of the part that had the memory before; its old content
 *     lifetimes               double frees, frees of what is in use, work on a freed queue, ranges
 *                             in freed memory, memory and queues that are left at the end
 *
 * Work runs in an order drawn by `seed` that only queues and events restrict: when the host waits,
 * or earlier by chance. The same calls with the same seed run in the same order.
 *
 * Each launch runs twice, with different content in all bytes that it may not read; different
 * results show that it read them. A launch must therefore depend on nothing but its arguments and
 * ranges, and change nothing else. The program ends when there is no memory for this bookkeeping.
 *
 * Host memory that launches share is in no range: ThreadSanitizer's build checks it, in which each
 * queue is a thread (fiber.h).
 *
 * One at a time in a process: memory protection and the SIGSEGV handler are the process's. One
 * thread. Sources: Fidge 1988 (vector clocks); Flanagan and Freund 2009 (FastTrack), for what to
 * keep of earlier accesses.
 */
#ifndef DEVICE_REHEARSAL_H
#define DEVICE_REHEARSAL_H

#include "libworker/device/device.h"

enum {
    REHEARSAL_SENTENCE_MAX = 512,
    REHEARSAL_FREED_MAX = 1024, /* freed memories that are still recognised */
};

struct rehearsal_options {
    uint64_t seed;
    size_t memory_bytes; /* of the device, beyond which there is none; 0: no limit */
    uint64_t fail_at; /* the device fails at this piece of work, counted from 1; 0: it does not */

    /* Gets each finding. NULL: the sentence is written to standard error and the program aborts.
     * After a finding by memory protection the program dies of SIGSEGV in any case. */
    void (*found)(void *self, const char *sentence);
    void *self;
};

/* WK_ESTATE: the process has a rehearsal device. WK_ENOMEM. Free with device_free. */
int rehearsal_new(const struct rehearsal_options *options, struct device **ret_device,
                  struct error *err);

/* Pieces of work that have run. */
uint64_t rehearsal_ran(const struct device *device);

#endif
