/* Looks up the addresses of a host beside the loop: a name server may be silent for seconds. Loop
 * thread. */
#ifndef ENV_NET_LOOKUP_H
#define ENV_NET_LOOKUP_H

struct addrinfo;
struct loop;
struct net_lookup;

/* 0 and the addresses, which the receiver frees (freeaddrinfo), or getaddrinfo's error. */
typedef void (*net_lookup_fn)(void *arg, int failed, struct addrinfo *found);

/* NULL if memory is out. It ends with its callback, or with net_lookup_cancel. */
struct net_lookup *net_lookup_start(struct loop *loop, const char *host, const char *port,
                                    net_lookup_fn on_found, void *arg);
void net_lookup_cancel(struct net_lookup *lookup); /* no callback follows; NULL is allowed */

#endif
