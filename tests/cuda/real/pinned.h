/* The memory of this program for the kernels of a real GPU, so that tests which hand them arrays of
 * the host run as they are: its data and its heap are pinned, and the GPU reads and writes them at
 * their own addresses. The heap has room for HEAP_BYTES from the start and does not grow. One
 * thread. */
#ifndef REAL_PINNED_H
#define REAL_PINNED_H

/* Pin what there is, once. Without a GPU, or where the driver cannot, it ends the program as
 * skipped, with the reason. */
void pinned_begin(void);

#endif
