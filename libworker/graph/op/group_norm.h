/* The attributes of group_norm, for the kernels of all devices. */
#ifndef OP_GROUP_NORM_H
#define OP_GROUP_NORM_H

struct group_norm_attributes {
    int groups;
    float epsilon;
};

#endif
