/* clock.h: monotonic wall clock. */
#ifndef HG_BASE_CLOCK_H
#define HG_BASE_CLOCK_H

double hg_now(void); /* seconds, CLOCK_MONOTONIC */

#endif
