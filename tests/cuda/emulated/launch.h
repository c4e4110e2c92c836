/* A launch as a closure: kernel and arguments by value. C++. */
#ifndef EMULATED_LAUNCH_H
#define EMULATED_LAUNCH_H

#include <new>
#include <stdlib.h>
#include <tuple>

#include "tests/cuda/emulated/emulated.h"
#include "tests/cuda/emulated/lane.h"
#include "tests/cuda/emulated/types.h"

struct emulated_size {
    dim3 grid, block;
    size_t shared_bytes;
};

template <class... P> struct emulated_closure {
    struct emulated_grid grid;
    void (*kernel)(P...);
    std::tuple<P...> arguments;

    static void body(void *self)
    {
        const emulated_closure *closure = static_cast<const emulated_closure *>(self);
        std::apply(closure->kernel, closure->arguments);
    }
    static void run(struct emulated_launch *launch)
    {
        emulated_run(&static_cast<const emulated_closure *>(launch->closure)->grid);
    }
    static void free(struct emulated_launch *launch)
    {
        static_cast<emulated_closure *>(launch->closure)->~emulated_closure();
        ::free(launch->closure);
    }
};

template <class T> struct emulated_same {
    typedef T type;
};

template <class... P>
inline void emulated_launch_kernel(void (*kernel)(P...), const char *name,
                                   const emulated_size &size, cudaStream_t stream,
                                   typename emulated_same<P>::type... arguments)
{
    typedef emulated_closure<P...> closure;
    void *memory = malloc(sizeof(closure));
    if (!memory)
        abort();
    struct emulated_grid grid = {name,
                                 {size.grid.x, size.grid.y, size.grid.z},
                                 {size.block.x, size.block.y, size.block.z},
                                 size.shared_bytes,
                                 closure::body,
                                 memory};
    new (memory) closure{grid, kernel, std::tuple<P...>(arguments...)};
    struct emulated_launch launch = {name, memory, closure::run, closure::free};
    emulated_launch_add(stream, &launch);
}

#endif
