/* Why an agent ends. */
#ifndef AGENT_AGENT_END_H
#define AGENT_AGENT_END_H

/* Argument of agent_options.on_end. */
enum agent_end {
    AGENT_END_NONE,    /* not called yet */
    AGENT_END_FENCED,  /* a newer agent of this name runs: leave without touching a worker */
    AGENT_END_STOPPED, /* agent_stop_workers has ended all workers, and the coordinator knows */
    AGENT_END_REFUSED, /* its token or key is not valid for this node: touch no worker */
};

#endif
