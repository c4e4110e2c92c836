/* The time that drives deadlines and waits. Any thread. */
#ifndef COMM_CLOCK_H
#define COMM_CLOCK_H

#include <stdint.h>

int64_t comm_now_us(void); /* monotonic */

#endif
