#!/usr/bin/env python3
"""JAX on several processes (CPU or GPU): data parallel, with Muster's reports, data order, checkpoints and stop.

    muster run -N 2 -- python3 examples/torch/jax_train.py ckpt 300

jax.distributed finds its coordinator at MASTER_ADDR, at the port after MASTER_PORT.
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy

import muster
from muster.tensors import load, save

SAMPLES, BATCH, EVERY = 1000, 20, 50


def loss_of(weights, x, y):
    hidden = jnp.tanh(x @ weights["a"])
    return jnp.mean((hidden @ weights["b"] - y) ** 2)


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if world > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT'])}", world, rank)
    mesh = jax.sharding.Mesh(numpy.array(jax.devices()), ("data",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

    chance = numpy.random.default_rng(1)
    data = chance.standard_normal((SAMPLES, 16), dtype=numpy.float32)
    target = numpy.sin(data.sum(axis=1, keepdims=True))
    weights = {"a": chance.standard_normal((16, 32), dtype=numpy.float32) / 4, "b": numpy.zeros((32, 1), numpy.float32)}
    sampler = muster.BatchSampler(SAMPLES, BATCH, seed=1, drop_last=True)
    step = 0
    if path := muster.latest(folder):
        weights = load(path / "weights.safetensors")
        step = int(path.name.split("-")[1])
        sampler.commit(step)
    weights = jax.device_put(weights, whole)
    update = jax.jit(lambda w, x, y: (lambda loss, g: (loss, jax.tree.map(lambda p, d: p - 0.1 * d, w, g)))(*jax.value_and_grad(loss_of)(w, x, y)),
                     out_shardings=(whole, whole))
    stop_of = jax.jit(lambda flags: flags.max(), out_shardings=whole)
    muster.should_stop()
    while step < steps:
        mine = sampler.indices(sampler.deal(sampler.position))
        x, y = (jax.make_array_from_process_local_data(split, part[mine]) for part in (data, target))
        loss, weights = update(weights, x, y)
        sampler.commit()
        step += 1
        muster.report(step, loss=loss, total_steps=steps)
        # Ranks hear of a stop at different steps: the largest of their flags is the same on all.
        flags = numpy.full((len(jax.local_devices()),), muster.should_stop(), numpy.int32)
        stop = bool(stop_of(jax.make_array_from_process_local_data(split, flags)))
        if rank == 0 and (stop or step % EVERY == 0 or step == steps):
            with muster.checkpoint(f"{folder}/step-{step:08}", step) as made:
                save(made / "weights.safetensors", {name: numpy.asarray(value) for name, value in weights.items()})
        if stop:
            sys.exit(muster.EXIT_STOPPED)
    print(f"done after {step} steps, loss {float(loss):.4f}", flush=True)


if __name__ == "__main__":
    main()
