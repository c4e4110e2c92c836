/* Error codes of libworker. A call returns 0 or one of these; wk_last_error(ctx) has a sentence.
 * Codes that gRPC has use its numbers, so failures of the control plane pass unchanged. Codes of
 * libworker start at -32. */
#ifndef WORKER_ERROR_H
#define WORKER_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#define WK_ERROR_LIST(X)                                                                           \
    X(EINVAL, 3, "an argument or a setting is not acceptable")                                     \
    X(ETIMEOUT, 4, "the time limit passed")                                                        \
    X(ENOTFOUND, 5, "what was named does not exist")                                               \
    X(ENOMEM, 8, "memory, disk or another limit is exhausted")                                     \
    X(ESTATE, 9, "not possible in the present state")                                              \
    X(EABORT, 10, "aborted, or refused because the generation is over")                            \
    X(EUNSUPPORTED, 12, "this build or machine cannot do it")                                      \
    X(EINTERNAL, 13, "a defect in libworker")                                                      \
    X(EUNAVAILABLE, 14, "the other side cannot be reached")                                        \
    X(EIO, 15, "data on disk or on the wire is damaged or cannot be moved")                        \
    X(EPEER, 32, "a peer of the communicator died or left")                                        \
    X(EMISMATCH, 33, "ranks or files do not match: another collective, model or setting")          \
    X(EOVERFLOW, 34, "a value left the range of its type")                                         \
    X(ESTOPPED, 35, "the job was asked to stop")

enum wk_error {
    WK_OK = 0,
#define X(name, number, text) WK_##name = -(number),
    WK_ERROR_LIST(X)
#undef X
};

#ifdef __cplusplus
}
#endif

#endif
