#!/usr/bin/env python3
"""Plant mistakes in kernels and host code of products and attention, one at a time, and see that a test finds each.

    product_mistakes.py BUILD [NAME]...

The sources stay as they are: a changed copy is compiled, and linked before the library that has the
original. Takes minutes, so no suite runs it.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = "libworker/cuda/kernels/"
ATTENTION, MORE, LT = "cuda_attention_kernels", "cuda_products", "cuda_lt"
CUDNN = "cuda_cudnn"
GRAPHS, CALLS = "libworker/cuda/cudnn_attention.c", "libworker/cuda/attention_cudnn.c"
PLANS, RULE = "libworker/cuda/cudnn.c", "libworker/cuda/attention_rule.c"
LIMIT_S = 300

# name, file that is changed, before, after, what is compiled for it, the program, its tests
MISTAKES = [
    ("a_query_sees_the_next_key", KERNELS + "attention_span.h", "end = at + 1;", "end = at + 2;",
     ["attention.cu", "attention_f32.cu"], ATTENTION, "*/*f32"),
    ("documents_meet", KERNELS + "attention_span.h", "starts ? starts[i] : 0", "0",
     ["attention.cu", "attention_f32.cu"], ATTENTION, "*/*f32"),
    ("window_is_one_wider", KERNELS + "attention_span.h", "at - a->window + 1", "at - a->window",
     ["attention.cu", "attention_f32.cu"], ATTENTION, "*/*f32"),
    ("old_sums_are_not_rescaled", KERNELS + "attention_weights.h", "rows->sum[i] *= factor;", ";",
     ["attention_bf16.cu"], ATTENTION, "*/*bf16"),
    ("values_are_not_waited_for", KERNELS + "attention_forward.h",
     "        copies_wait();\n        __syncthreads();\n        if (j", "        if (j",
     ["attention_bf16.cu"], ATTENTION, "*/*bf16"),
    ("keys_are_overwritten_while_read", KERNELS + "attention_backward.h",
     "            __syncthreads();\n            tile_load", "            tile_load",
     ["attention_f16.cu"], ATTENTION, "*/*f16"),
    ("delta_is_forgotten", KERNELS + "attention_slopes.h", "- row.delta", "",
     ["attention_f32.cu"], ATTENTION, "*/*f32"),
    ("dropout_has_other_keys", KERNELS + "attention_slopes.h",
     "row_key(a, p->sample, head, query)", "row_key(a, p->sample, head, query + 1)",
     ["attention_f32.cu"], ATTENTION, "*/*f32"),
    ("a_group_reads_the_first_head", KERNELS + "attention_forward.h",
     "p.head / (a.heads / a.kv_heads)", "0 * p.head", ["attention_bf16.cu"], ATTENTION, "*/*bf16"),
    ("turned_factor_is_not", KERNELS + "attention_low.h", "gpu_load_matrices<true>",
     "gpu_load_matrices<false>", ["attention_bf16.cu"], ATTENTION, "*/*bf16"),
    ("places_of_chunks_differ", KERNELS + "attention_float.h",
     "tile_place<D, float_engine>(tile, row, c)", "tile_place<D, float_engine>(tile, row, c ^ 1)",
     ["attention_f32.cu"], ATTENTION, "*/*f32"),
    ("cache_is_written_one_late", KERNELS + "attention.cu", "c.past * c.samples",
     "(c.past + 1) * c.samples", ["attention.cu"], MORE, "*/decoding*"),
    ("slopes_lack_the_target", KERNELS + "entropy_head.cu", "i == target ?", "i == target + 1 ?",
     ["entropy_head.cu"], MORE, "*/more_rows*"),
    ("second_part_reads_first_targets", "libworker/cuda/head_cross_entropy.c",
     "call->in[TARGETS].data + r", "call->in[TARGETS].data + 0 * r", None, MORE, "*/more_rows*"),
    ("joined_weights_lose_one", "libworker/graph/op/linear.h", "parts[0].out += out;",
     "parts[0].out += i == 1 ? out : 0;", "libworker/cuda/linear.c", MORE, "*/adjacent*"),
    ("weight_overwritten_by_each_part", "libworker/cuda/conv2d.c", "first > 0 || dweight->add",
     "dweight->add", None, MORE, "*/more_windows*"),
    ("factors_are_not_exchanged", "libworker/cuda/lt.c", "p->b.at, plan->a, p->a.at,",
     "p->a.at, plan->a, p->b.at,", None, LT, "every_type_and_turn"),
    ("alignment_is_taken_for_granted", "libworker/cuda/lt.c",
     "(uintptr_t)at | ALIGN_MAX", "(uintptr_t)0 | ALIGN_MAX", None, LT, "memory_of_any_alignment"),
    ("plan_ignores_the_bias", "libworker/cuda/lt.c", ".has_bias = p->bias != NULL",
     ".has_bias = false", None, LT, "every_type_and_turn"),
    ("old_plan_keeps_its_place", "libworker/cuda/lt.c", "    if (replaces)\n        places_set(lt);",
     "    if (replaces)\n        ;", None, LT, "plans_have_a_limit"),
    ("scores_are_not_scaled", GRAPHS, "masked(s, scaled_scores(s, number(s, a->scale)))",
     "masked(s, scaled_scores(s, number(s, 1)))", None, CUDNN, "graphs_are_attention"),
    ("mask_is_the_wrong_way_round", GRAPHS, "CMP_GE, query, key, seen",
     "CMP_GE, key, query, seen", None, CUDNN, "graphs_are_attention"),
    ("largest_is_not_subtracted", GRAPHS, "int largest = row_sums(s, CUDNN_REDUCE_TENSOR_MAX, x);",
     "(void)row_sums(s, CUDNN_REDUCE_TENSOR_MAX, x);\n    int largest = number(s, 0);",
     None, CUDNN, "large_scores"),
    ("lse_lacks_the_largest", GRAPHS, "ADD, largest, logs, ROLE_LSE",
     "ADD, logs, number(s, 0), ROLE_LSE", None, CUDNN, "graphs_are_attention"),
    ("heads_have_the_stride_of_rows", GRAPHS, "tensor.stride[1] = a->size;",
     "tensor.stride[1] = row;", None, CUDNN, "graphs_are_attention"),
    ("values_are_turned", GRAPHS, "a->backward ? TURNED : AS_IS;",
     "TURNED;", None, CUDNN, "graphs_are_attention"),
    ("delta_is_added", GRAPHS, "SUB, slopes, ROLE_DELTA",
     "ADD, slopes, ROLE_DELTA", None, CUDNN, "graphs_are_attention"),
    ("slopes_are_not_scaled", GRAPHS, "slopes, scale, scores(s)",
     "slopes, number(s, 1), scores(s)", None, CUDNN, "graphs_are_attention"),
    ("slopes_lack_the_shares", GRAPHS, "slopes, shares, scores(s)",
     "slopes, number(s, 1), scores(s)", None, CUDNN, "graphs_are_attention"),
    ("shares_are_not_turned", GRAPHS, "length * length, 1, length}",
     "length * length, length, 1}", None, CUDNN, "graphs_are_attention"),
    ("keys_have_the_values_slopes", GRAPHS, "turned_product(s, slopes, ROLE_Q, ROLE_DK)",
     "turned_product(s, slopes, ROLE_DOUT, ROLE_DK)", None, CUDNN, "graphs_are_attention"),
    ("backward_sees_later_keys", GRAPHS, "masked(s, less), scores(s)",
     "less, scores(s)", None, CUDNN, "graphs_are_attention"),
    ("keys_are_no_rows", GRAPHS, "a->sample, a->size, a->row, 1}",
     "a->sample, a->size, 1, a->row}", None, CUDNN, "graphs_are_attention"),
    ("values_begin_a_head_early", CALLS, "memory[ROLE_V] = element_at(qkv->data, (key.heads + key.kv_heads)",
     "memory[ROLE_V] = element_at(qkv->data, (key.heads + key.kv_heads - 1)", None, CUDNN, "graphs_are_attention"),
    ("gradients_are_not_added", CALLS, "if (to->add)",
     "if (false)", None, CUDNN, "graphs_are_attention"),
    ("dout_has_another_type", CALLS, "{.at = parts.dout, .type = type}",
     "{.at = parts.dout, .type = WK_F16}", None, CUDNN, "graphs_are_attention"),
    ("workspace_is_not_laid_out", CALLS, "(void)parts_take(&room, call, &key, plan->workspace_bytes);",
     "(void)parts_take(&room, call, &key, 0);", None, CUDNN, "graphs_are_attention"),
    ("every_plan_is_causal", CALLS, ".causal = k.causal,",
     ".causal = true,", None, CUDNN, "graphs_are_attention"),
    ("heads_are_half", CALLS, ".size = k.size,\n        .row = k.q.row",
     ".size = k.size / 2,\n        .row = k.q.row", None, CUDNN, "graphs_are_attention"),
    ("windows_are_cudnns", RULE, "if (f->windowed)", "if (false)", None, CUDNN,
     "own_kernels_take_the_rest"),
    ("plans_are_known_by_samples_alone", PLANS, "attention, sizeof(*attention)) == 0",
     "attention, sizeof(int64_t)) == 0", None, CUDNN, "graphs_are_attention"),
    ("plans_are_not_freed", PLANS, "        cudnn_graph_free(cudnn->shapes[i].plan);",
     "        ;", None, CUDNN, "graphs_are_attention"),
    ("stream_is_not_set", PLANS, "cudnn->api.SetStream(cudnn->handle, queue->stream)",
     "cudnn->api.SetStream(cudnn->handle, NULL)", None, CUDNN, "graphs_are_attention"),
]


def commands(build, target):
    out = subprocess.run(["ninja", "-C", str(build), "-t", "commands", target], check=True,
                         capture_output=True, text=True).stdout
    return out.splitlines()


def compile_of(lines, source):
    """The command for a source, less what it writes beside the object."""
    line = next(x for x in lines if x.endswith(f"/{source}") and " -c " in x)
    return re.sub(r" -MD -MT \S+ -MF \S+", "", line)


def plant(build, folder, mistake):
    name, file, before, after, sources, program, which = mistake
    text = (ROOT / file).read_text()
    if before not in text:
        return f"{name}: {file} no longer has: {before}"
    copy = folder / file
    copy.parent.mkdir(parents=True)
    copy.write_text(text.replace(before, after))
    if sources is None:
        sources = [file]
    elif isinstance(sources, str):
        sources = [sources]
    else:
        sources = [KERNELS + source for source in sources]
    lines = commands(build, f"tests/{program}")
    objects = []
    for source in sources:
        command = compile_of(lines, source)
        path = folder / source if (folder / source).exists() else ROOT / source
        objects.append(folder / (Path(source).name + ".o"))
        command = re.sub(r" -o \S+ -c \S+$", f" -Wno-error -o {objects[-1]} -c {path}",
                         command.replace(f"-I{ROOT} ", f"-I{folder} -I{ROOT} ", 1))
        subprocess.run(command, shell=True, check=True, cwd=build)
    link = lines[-1]
    binary = folder / "program"
    link = re.sub(r" -o \S+", f" {' '.join(map(str, objects))} -o {binary}", link, count=1)
    subprocess.run(link, shell=True, check=True, cwd=build)
    arguments = [which] if program in (LT, CUDNN) else ["--filter", which, "--timeout", "200"]
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=LIMIT_S)
    found = done.returncode != 0
    words = next((x.strip() for x in (done.stdout + done.stderr).splitlines()
                  if re.search(r"element|is off|cuDNN|not so|FAIL|sanitizer|waits|copies|a product", x)), "")
    print(f"{'found' if found else 'NOT FOUND'}  {name}: {words[:110]}", flush=True)
    return None if found else f"{name} was not found"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = Path(sys.argv[1]).resolve()
    wanted = sys.argv[2:]
    missed = []
    for mistake in MISTAKES:
        if wanted and mistake[0] not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            missed.append(plant(build, Path(folder), mistake))
    missed = [x for x in missed if x]
    print("\n".join(missed) or "all mistakes were found")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
