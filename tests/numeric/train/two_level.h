/* Collectives in two levels, call by call, of four processes on two hosts. Their devices have
 * collectives of own_wire.h within a host. Cases of test_wires.c, after scene_new. */
#ifndef TRAIN_TWO_LEVEL_H
#define TRAIN_TWO_LEVEL_H

void every_call_in_two_levels_is_exact(void);
void calls_in_two_levels_overlap(void);
void mistakes_in_two_levels_are_found(void);
void a_host_sends_its_data_once(void);
void sums_in_rank_order_pass_through_the_hosts(void);
void unequal_hosts_pass_data_through_them(void);
void every_rank_hears_of_a_death_in_any_phase(void);

#endif
