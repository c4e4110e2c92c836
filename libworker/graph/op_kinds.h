/* A row's facts that are one word or number: how the operation may be sharded, what it costs, the
 * type of its result, and whether ranks meet in it. Plain data. */
#ifndef GRAPH_OP_KINDS_H
#define GRAPH_OP_KINDS_H

/* Along which dimensions a rank may have a part of the work without asking others; or-ed. */
enum op_cut {
    OP_CUT_SAMPLES = 1,
    OP_CUT_LENGTH = 2, /* positions do not meet */
    OP_CUT_HEADS = 4,
    OP_CUT_ROWS = 8,     /* of a weight: the results are parts of a sum */
    OP_CUT_COLUMNS = 16, /* of a weight: the results are side by side */
};

struct op_cost {
    double flop;  /* multiplications and additions */
    double bytes; /* read and written once each */
};

enum op_result {
    RESULT_WIDE,   /* f32: sums over many elements, statistics, losses */
    RESULT_LIKE,   /* narrow if all values that it reads are: elementwise, moves */
    RESULT_NARROW, /* a product's; with a residual, the residual's type */
};

enum op_meeting {
    MEET_NONE,
    MEET_SUM,    /* all-reduce; back the same */
    MEET_GATHER, /* all-gather; back reduce-scatter */
};

#endif
