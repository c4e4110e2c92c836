"""One rank of test_model.py: trains two parameters toward known values, by sums over its part of each batch. Prints the parameters."""
import array
import sys

import case  # noqa: F401  (finds the package)

import muster

BATCH, TOTAL = 12, 60


def target(sample, i):
    return (sample * 7 + i * 3) % 11 / 11.0


def main():
    settings = dict(word.split("=", 1) for word in sys.argv[1:])
    with muster.Worker({"optimizer": "sgd", "total_steps": "20", **settings}) as worker:
        model = muster.Model(worker, {"w": memoryview(array.array("f", [0.5] * 6)).cast("B").cast("f", shape=(2, 3)), "b": array.array("f", [0.0] * 3)},
                             rate=0.05)
        while True:
            first, count = worker.split(BATCH)
            if not model.join(count):
                break
            loss = 0.0
            for name, size in (("w", 6), ("b", 3)):
                data, grads = (memoryview(x).cast("B").cast("f") for x in (model.data[name], model.grads[name]))
                for sample in range(first, first + count):
                    for i in range(size):
                        error = data[i] - target(worker.steps * BATCH + sample, i)
                        grads[i] += error
                        loss += error * error / 2
            model.update(loss)
        model.gather()
        values = [x for name in ("w", "b") for x in memoryview(model.data[name]).cast("B").cast("f")]
        print("values", worker.steps, f"{model.loss:.9g}", *[f"{x:.9g}" for x in values], flush=True)
        code = worker.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
