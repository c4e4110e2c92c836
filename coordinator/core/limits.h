/* The times and limits by which the core decides. */
#ifndef CORE_LIMITS_H
#define CORE_LIMITS_H

enum {
    BEAT_MS = 1000,            /* agents report at least this often */
    LEASE_MS = 3000,           /* a node silent for this long loses its lease */
    RESTORED_LEASE_MS = 10000, /* the first lease after a restart: agents must find us again */
    ABSENCE_MS = 500,          /* a tick this late means the coordinator was paused: silence
                                   * proves nothing */
    PUNCTUAL_MS = 50,          /* a lease check later than this first processes the waiting
                                   * reports, */
    LEASE_GRACE_MS = 250,      /* for at most this long */
    EVIDENCE_MS = LEASE_MS,    /* a new step of its gang proves for this long that a silent
                                   * node is alive */
    FRONT_REASONS_MS = 1000,   /* interval of new reasons for all jobs in front of the queue */
    STOP_GRACE_MS = 10000,   /* the default of `grace`; and how long a leaver's hand-over may be */
    STOP_SLACK_MS = 30000,   /* a worker that outlives grace and this is named in the reason */
    JOIN_TIMEOUT_MS = 30000, /* to join, for members that their peers reported lost */
    SURVIVOR_TIMEOUT_MS = 600000, /* to join, for other living members: they may evaluate, load or
                                   * save */
    START_TIMEOUT_MS = 60000,     /* to join, for members that are newly started */
    NEWCOMER_PATIENCE_MS = 1000,  /* survivors that are enough wait this long for new workers, */
    NEWCOMER_FAST_MS = 500,       /* and not at all for a program known to start slower */
    MOVE_PATIENCE_MS = START_TIMEOUT_MS, /* a gang stays on a drained node for this long while new
                                          * workers start elsewhere, */
    MOVE_RETRY_MS = 10000,               /* and for this long after one of them failed */
    FIRST_WORD_MS = START_TIMEOUT_MS,    /* a silent gang may be importing, and is not restarted for
                                       * another size */
    UNAWARE_AFTER_MS = 2000,   /* started, but silent: a program that does not use libworker */
    BROKEN_TIMEOUT_MS = 3000,  /* peers lost each other, but no worker died: form again */
    FINISH_TIMEOUT_MS = 60000, /* some finished, the others make no progress */
    STALL_MIN_MS = 10000,      /* a shorter wait is not reported: a rank may be saving */
    CRASH_LOOP_LIMIT = 3,      /* failures with the same cause and no new step between; or,
                                   * without steps: */
    CRASH_SOON_MS = 10000,     /* each this soon after the start of a program that reports no
                                   * steps */
    REFUND_AFTER_MS = 600000,  /* run time that refunds the restart budget of such a program */
    GROW_BACKOFF_MS = 10000,   /* doubled with each failed growth, up to GROW_BACKOFF_MAX_MS */
    GROW_BACKOFF_MAX_MS = 600000,
    RESIZE_SETTLE_MS = 30000, /* run time before a gang restarts in order to grow; doubled with each
                               * growth, up to GROW_BACKOFF_MAX_MS */
    RESIZE_CAPACITY_MS = 10000, /* and nodes were free for this long */
    BRIEF_NODE_MS = 3600000, /* a lost node that was here for less is the first to be forgotten */
};

#endif
