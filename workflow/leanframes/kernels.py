"""Warp kernels for stacks of camera frames and for PPO's losses, for CPU and CUDA. `operations`, `rollouts` and `policy_loss` launch them.

Stacks are channels first, so that neighbouring threads read and write neighbouring columns. The module imports nothing else of the
project, because container images compile its kernels when they are built (containers/step_once.py).

Normalization has the arithmetic of Isaac Lab 3.0.0 (isaaclab/utils/images.py, `_normalize_uint8_kernel` and `_uint8_spatial_mean`):
`float32(x) / 255 - float32(sum) / float32(height * width * 255)`. In Isaac Lab one thread adds up whole rows of a plane; here
neighbouring threads read neighbouring words.

Planes must consist of whole words of four pixels, as at almost every resolution. Kernels start several loads before they use the first,
as a GPU needs to reach its memory's bandwidth. For other planes `operations` and `rollouts` use PyTorch, which gives the same bits.
"""

# Python's type checker does not understand Warp's kernels: the number of results of wp.tid(), operators of Warp's types, and
# overloads by functions of the same name.
# pyright: reportRedeclaration=false
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false, reportOperatorIssue=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportIndexIssue=false, reportAttributeAccessIssue=false, reportInvalidTypeForm=false

import math
from typing import Any

import warp as wp

# Nothing is differentiated: kernels compile in two thirds of the time. Sums and products are rounded apart, as PyTorch's are.
wp.set_module_options({"enable_backward": False, "fuse_fp": False})

STRETCH = 1 << 20
"""Most pixels of a plane that is added up here: as int32, since 2^20 * 255 < 2^31."""

BLOCK = 256
"""Threads of a block on a GPU, which add up a plane together. Warp's default, so that the module is compiled once."""

WORDS = 4
"""Words of a plane that a thread loads before it uses the first."""

QUADS = 2
"""Groups of four pixels of an image that a thread loads before it uses the first."""

# For x = 0 ... 255, x * HIGH + x * LOW equals x / 255 rounded by IEEE 754: x * HIGH is exact, so only the sum is rounded, with or
# without a fused multiply-add. A division would take a GPU several times as long.
HIGH = wp.constant(float.fromhex("0x1.01p-8"))
LOW = wp.constant(float.fromhex("0x1.010102p-24"))

HALF_LOG_2_PI = wp.constant(0.5 * math.log(2.0 * math.pi))

_Taken = wp.types.vector(length=WORDS, dtype=wp.uint32)
_Quads = wp.types.matrix(shape=(QUADS, 4), dtype=wp.uint32)

# Access to rows of memory without Warp's handling of negative indices and strides. Four neighbours take one access of 8 or 16 bytes:
# compilers for CUDA and CPU load and store an aligned struct at once.
_PUT_FOUR = """
    struct alignas(4 * sizeof(%s)) Four { %s values[4]; } four;
    for (int i = 0; i < 4; ++i) four.values[i] = %s(values[i]);
    reinterpret_cast<Four*>(reinterpret_cast<char*>(out.data) + size_t(row) * out.strides[0])[unsigned(place)] = four;
"""


@wp.func_native("""
    return reinterpret_cast<const wp::uint32*>(
        reinterpret_cast<const char*>(words.data) + size_t(row) * words.strides[0])[unsigned(place)];
""")
def _word(words: wp.array2d(dtype=wp.uint32), row: wp.int32, place: wp.int32) -> wp.uint32: ...


@wp.func_native("""
    reinterpret_cast<wp::uint32*>(
        reinterpret_cast<char*>(words.data) + size_t(row) * words.strides[0])[unsigned(place)] = value;
""")
def _put_word(words: wp.array2d(dtype=wp.uint32), row: wp.int32, place: wp.int32, value: wp.uint32): ...


@wp.func_native("""
    struct alignas(16) Four { wp::uint32 values[4]; };
    const Four four = reinterpret_cast<const Four*>(
        reinterpret_cast<const char*>(words.data) + size_t(row) * words.strides[0])[unsigned(place)];
    return wp::vec4ui(four.values[0], four.values[1], four.values[2], four.values[3]);
""")
def _four_words(words: wp.array2d(dtype=wp.uint32), row: wp.int32, place: wp.int32) -> wp.vec4ui: ...


@wp.func_native(_PUT_FOUR % (("wp::float32",) * 3))
def _put_four(out: wp.array2d(dtype=wp.float32), row: wp.int32, place: wp.int32, values: wp.vec4f): ...


@wp.func_native(_PUT_FOUR % (("wp::bfloat16",) * 3))
def _put_four(out: wp.array2d(dtype=wp.bfloat16), row: wp.int32, place: wp.int32, values: wp.vec4f): ...


@wp.func_native(_PUT_FOUR % (("wp::float16",) * 3))
def _put_four(out: wp.array2d(dtype=wp.float16), row: wp.int32, place: wp.int32, values: wp.vec4f): ...


@wp.func
def _four_pixels(images: wp.array2d(dtype=wp.uint32), env: wp.int32, place: wp.int32, pixel: wp.int32):
    """Return four neighbouring pixels of 3 or 4 bytes, one per word, the first channel in the lowest byte."""
    if pixel == 4:
        return _four_words(images, env, place)
    first = _word(images, env, 3 * place)
    second = _word(images, env, 3 * place + 1)
    third = _word(images, env, 3 * place + 2)
    return wp.vec4ui(
        first,
        (first >> wp.uint32(24)) | (second << wp.uint32(8)),
        (second >> wp.uint32(16)) | (third << wp.uint32(16)),
        third >> wp.uint32(8),
    )


@wp.func
def _channel_of(pixels: wp.vec4ui, channel: wp.int32):
    """Return a channel of four pixels as a word of a plane."""
    shift = wp.uint32(8 * channel)
    low = ((pixels[0] >> shift) & wp.uint32(255)) | (((pixels[1] >> shift) & wp.uint32(255)) << wp.uint32(8))
    high = ((pixels[2] >> shift) & wp.uint32(255)) | (((pixels[3] >> shift) & wp.uint32(255)) << wp.uint32(8))
    return low | (high << wp.uint32(16))


@wp.func
def _sum_of_word(word: wp.uint32):
    """Return the sum of four pixels."""
    pairs = (word & wp.uint32(0x00FF00FF)) + ((word >> wp.uint32(8)) & wp.uint32(0x00FF00FF))
    return wp.int32((pairs & wp.uint32(0xFFFF)) + (pairs >> wp.uint32(16)))


@wp.func
def _take(words: wp.array2d(dtype=wp.uint32), row: wp.int32, start: wp.int32, lanes: wp.int32):
    """Return WORDS words of a row, `lanes` apart. Beyond the row's end it repeats the last word, so that no load needs a branch."""
    taken = _Taken()
    for step in range(WORDS):
        taken[step] = _word(words, row, wp.min(start + step * lanes, words.shape[1] - 1))
    return taken


@wp.func
def _sum_of_row(words: wp.array2d(dtype=wp.uint32), row: wp.int32, lane: wp.int32, lanes: wp.int32):
    """Return a thread's share of the sum of a plane of at most STRETCH pixels."""
    width = words.shape[1]
    total = wp.int32(0)
    for start in range(lane, width, WORDS * lanes):
        taken = _take(words, row, start, lanes)
        for step in range(WORDS):
            if start + step * lanes < width:
                total += _sum_of_word(taken[step])
    return total


@wp.func
def _copy_row(
    words: wp.array2d(dtype=wp.uint32),
    row: wp.int32,
    lane: wp.int32,
    lanes: wp.int32,
    out: wp.array2d(dtype=wp.uint32),
    to: wp.int32,
):
    """Copy a thread's share of a row, and return its sum as `_sum_of_row` does."""
    width = words.shape[1]
    total = wp.int32(0)
    for start in range(lane, width, WORDS * lanes):
        taken = _take(words, row, start, lanes)
        for step in range(WORDS):
            if start + step * lanes < width:
                _put_word(out, to, start + step * lanes, taken[step])
                total += _sum_of_word(taken[step])
    return total


@wp.func
def _normalize_row(
    words: wp.array2d(dtype=wp.uint32),
    row: wp.int32,
    mean: wp.float32,
    lane: wp.int32,
    lanes: wp.int32,
    out: wp.array2d(dtype=Any),
    to: wp.int32,
):
    """Write a thread's share of `x / 255 - mean` of a plane."""
    width = words.shape[1]
    for start in range(lane, width, WORDS * lanes):
        taken = _take(words, row, start, lanes)
        for step in range(WORDS):
            if start + step * lanes < width:
                values = wp.vec4f()
                for byte in range(4):
                    x = wp.float32((taken[step] >> wp.uint32(8 * byte)) & wp.uint32(255))
                    values[byte] = (x * HIGH + x * LOW) - mean
                _put_four(out, to, start + step * lanes, values)


@wp.kernel(enable_backward=False)
def push_words(
    images: wp.array2d(dtype=wp.uint32),
    pixel: wp.int32,
    channels: wp.int32,
    is_fresh: wp.array(dtype=wp.bool),
    older: wp.array2d(dtype=wp.uint32),
    lanes: wp.int32,
    stacked: wp.array2d(dtype=wp.uint32),
):
    """Write the stacks of the newest frames after the stacks before them, `older`; each thread handles several words of one frame.

    images [n, h * w * pixel / 4] with pixels of 3 or 4 bytes; stacks [n * k, c * h * w / 4]. dim: n, k, lanes.
    """
    env, place, lane = wp.tid()
    frames = stacked.shape[0] // images.shape[0]
    row = env * frames + place
    if place < frames - 1 and not is_fresh[env]:
        _copy_row(older, row + 1, lane, lanes, stacked, row)
        return
    width = stacked.shape[1] // channels
    for start in range(lane, width, QUADS * lanes):
        taken = _Quads()
        for step in range(QUADS):
            taken[step] = _four_pixels(images, env, wp.min(start + step * lanes, width - 1), pixel)
        for step in range(QUADS):
            word = start + step * lanes
            if word < width:
                for channel in range(4):
                    if channel < channels:
                        _put_word(stacked, row, channel * width + word, _channel_of(taken[step], channel))


@wp.kernel(enable_backward=False)
def copy_words(
    stacked: wp.array2d(dtype=wp.uint32),
    layers: wp.int32,
    channels: wp.int32,
    lanes: wp.int32,
    newest: wp.array2d(dtype=wp.uint32),
    sums: wp.array(dtype=wp.int64),
):
    """Copy the newest frame of stacks [n * k * c, h * w / 4] to newest [n * c, h * w / 4], and its planes' sums to sums [n * c].

    `layers` is k * c; planes have at most STRETCH pixels. dim: n * c, lanes; a block has one thread per lane.
    """
    plane, lane = wp.tid()
    env = plane // channels
    row = (env + 1) * layers - (env + 1) * channels + plane
    total = wp.tile_sum(wp.tile(_copy_row(stacked, row, lane, lanes, newest, plane)))[0]
    if lane == 0:
        sums[plane] = wp.int64(total)


@wp.kernel(enable_backward=False)
def add_up_words(planes: wp.array2d(dtype=wp.uint32), lanes: wp.int32, sums: wp.array(dtype=wp.int64)):
    """Write the sums of planes [p, h * w / 4] of at most STRETCH pixels to sums [p]. dim: p, lanes; a block has one thread per lane."""
    plane, lane = wp.tid()
    total = wp.tile_sum(wp.tile(_sum_of_row(planes, plane, lane, lanes)))[0]
    if lane == 0:
        sums[plane] = wp.int64(total)


@wp.kernel(enable_backward=False)
def normalize_words(
    planes: wp.array2d(dtype=wp.uint32),
    scale: wp.float32,
    lanes: wp.int32,
    out: wp.array2d(dtype=Any),
):
    """Write `x / 255 - sum / scale` of planes [p, h * w / 4] of at most STRETCH pixels. dim: p, lanes; a block has one thread per lane.

    A block reads its plane twice, the second time from a cache.
    """
    plane, lane = wp.tid()
    total = wp.tile_sum(wp.tile(_sum_of_row(planes, plane, lane, lanes)))[0]
    _normalize_row(planes, plane, wp.float32(total) / scale, lane, lanes, out, plane)


@wp.kernel(enable_backward=False)
def gather_normalized_words(
    frames: wp.array2d(dtype=wp.uint32),
    sums: wp.array(dtype=wp.int64),
    history: wp.array2d(dtype=wp.uint8),
    places: wp.array(dtype=wp.int64),
    channels: wp.int32,
    stacked: wp.int32,
    scale: wp.float32,
    lanes: wp.int32,
    out: wp.array2d(dtype=Any),
):
    """Write the normalized stacks of transitions at `places` (step * n + env).

    frames [(t + k - 1) * n * c, h * w / 4] store each frame once, that of step s at s + k - 1. history [t, n] is the number of the k - 1
    earlier frames in the same episode. out [b * k * c, h * w]. dim: b, k * c, lanes.
    """
    row, layer, lane = wp.tid()
    frame = layer // channels
    plane = _frame_of(history, wp.int32(places[row]), frame, stacked) * channels + layer - frame * channels
    mean = wp.float32(sums[plane]) / scale
    _normalize_row(frames, plane, mean, lane, lanes, out, row * stacked * channels + layer)


@wp.func
def _frame_of(history: wp.array2d(dtype=wp.uint8), transition: wp.int32, place: wp.int32, stacked: wp.int32):
    """Return the index, step * n + env, of the frame at a place of a transition's stack."""
    envs = history.shape[1]
    step = transition // envs
    env = transition - step * envs
    back = wp.min(stacked - 1 - place, wp.int32(history[step, env]))
    return (step + stacked - 1 - back) * envs + env


INTO = {
    (kernel, kind): wp.overload(kernel, {"out": wp.array2d(dtype=kind)})
    for kernel in (normalize_words, gather_normalized_words)
    for kind in (wp.float32, wp.bfloat16, wp.float16)
}
"""Overloads by (kernel, dtype of the output): all in use, so that they are compiled at once. A new dtype would compile the module again."""


@wp.func
def _slope_of_max(left: wp.float32, right: wp.float32, left_slope: wp.float32, right_slope: wp.float32):
    """Return the gradient of max(left, right), as `torch.max` gives it."""
    if left > right:
        return left_slope
    if left < right:
        return right_slope
    return 0.5 * (left_slope + right_slope)


@wp.kernel(enable_backward=False)
def policy_losses(
    places: wp.array(dtype=wp.int64),
    mean: wp.array2d(dtype=wp.float32),
    deviation: wp.array2d(dtype=wp.float32),
    value: wp.array2d(dtype=wp.float32),
    actions: wp.array2d(dtype=wp.float32),
    old_mean: wp.array2d(dtype=wp.float32),
    old_deviation: wp.array2d(dtype=wp.float32),
    old_log_prob: wp.array2d(dtype=wp.float32),
    old_value: wp.array2d(dtype=wp.float32),
    returns: wp.array2d(dtype=wp.float32),
    advantages: wp.array2d(dtype=wp.float32),
    lowest: wp.float32,
    highest: wp.float32,
    clip: wp.float32,
    clips_value: wp.bool,
    value_weight: wp.float32,
    entropy_weight: wp.float32,
    weight: wp.float32,
    mean_gradient: wp.array2d(dtype=wp.float32),
    deviation_gradient: wp.array2d(dtype=wp.float32),
    value_gradient: wp.array2d(dtype=wp.float32),
    terms: wp.array2d(dtype=wp.float32),
):
    """Write one transition's terms and gradients, as `policy_loss` describes them. dim: b. What is NaN makes its term and gradient NaN."""
    row = wp.tid()
    place = wp.int32(places[row])
    log_prob, entropy, divergence = wp.float32(0.0), wp.float32(0.0), wp.float32(0.0)
    for action in range(mean.shape[1]):
        spread = deviation[row, action]
        away = actions[place, action] - mean[row, action]
        logarithm = wp.log(spread)
        log_prob += -(away * away) / (2.0 * (spread * spread)) - logarithm - HALF_LOG_2_PI
        entropy += 0.5 + HALF_LOG_2_PI + logarithm
        variances = old_deviation[place, action] / spread
        variances = variances * variances
        moved = (old_mean[place, action] - mean[row, action]) / spread
        divergence += 0.5 * (variances + moved * moved - 1.0 - wp.log(variances))

    advantage = advantages[place, 0]
    ratio = wp.exp(log_prob - old_log_prob[place, 0])
    is_within = ratio >= lowest and ratio <= highest
    plain, clipped = -advantage * ratio, -advantage * wp.clamp(ratio, lowest, highest)
    slope = _slope_of_max(plain, clipped, plain, wp.where(is_within, plain, 0.0)) * weight
    for action in range(mean.shape[1]):
        spread = deviation[row, action]
        away = (actions[place, action] - mean[row, action]) / spread
        mean_gradient[row, action] = slope * away / spread
        deviation_gradient[row, action] = slope * (away * away - 1.0) / spread - entropy_weight / spread

    wrong = value[row, 0] - returns[place, 0]
    value_loss, value_slope = wrong * wrong, 2.0 * wrong
    if clips_value:
        step = value[row, 0] - old_value[place, 0]
        near = old_value[place, 0] + wp.clamp(step, -clip, clip) - returns[place, 0]
        near_slope = wp.where(step >= -clip and step <= clip, 2.0 * near, 0.0)
        value_slope = _slope_of_max(value_loss, near * near, value_slope, near_slope)
        value_loss = wp.where(near * near > value_loss, near * near, value_loss)
    value_gradient[row, 0] = value_slope * value_weight

    terms[0, row] = value_loss
    terms[1, row] = wp.where(clipped > plain, clipped, plain)
    terms[2, row] = entropy
    terms[3, row] = divergence


@wp.kernel(enable_backward=False)
def adam_step(
    values: wp.array(dtype=wp.float32),
    gradients: wp.array(dtype=wp.float32),
    first: wp.array(dtype=wp.float32),
    second: wp.array(dtype=wp.float32),
    norm: wp.array(dtype=wp.float32),
    rate: wp.array(dtype=wp.float32),
    count: wp.array(dtype=wp.float32),
    most_norm: wp.float32,
    first_decay: wp.float32,
    second_decay: wp.float32,
    epsilon: wp.float32,
):
    """Clip a gradient by the norm [1] of all, and do Adam's step number `count` [1]. dim: parameters. NaN stays NaN."""
    place = wp.tid()
    share = most_norm / (norm[0] + 1.0e-6)
    if share > 1.0:
        share = wp.float32(1.0)
    gradient = gradients[place] * share
    mean = first_decay * first[place] + (1.0 - first_decay) * gradient
    square = second_decay * second[place] + (1.0 - second_decay) * gradient * gradient
    first[place] = mean
    second[place] = square
    size = rate[0] / (1.0 - wp.pow(first_decay, count[0]))
    spread = wp.sqrt(square) / wp.sqrt(1.0 - wp.pow(second_decay, count[0])) + epsilon
    values[place] = values[place] - size * mean / spread


@wp.kernel(enable_backward=False)
def planes_of_stacks(
    history: wp.array2d(dtype=wp.uint8),
    places: wp.array(dtype=wp.int64),
    channels: wp.int32,
    stacked: wp.int32,
    planes: wp.array2d(dtype=wp.int64),
):
    """Write the index of each plane of the stacks of transitions at `places`: planes [b, k * c]. dim: b, k * c."""
    row, layer = wp.tid()
    frame = layer // channels
    of_frame = _frame_of(history, wp.int32(places[row]), frame, stacked)
    planes[row, layer] = wp.int64(of_frame) * wp.int64(channels) + wp.int64(layer - frame * channels)


@wp.kernel(enable_backward=False)
def act(
    step: wp.array(dtype=wp.int64),
    mean: wp.array2d(dtype=wp.float32),
    deviation: wp.array2d(dtype=wp.float32),
    noise: wp.array2d(dtype=wp.float32),
    value: wp.array2d(dtype=wp.float32),
    newest: wp.array2d(dtype=wp.float32),
    actions: wp.array3d(dtype=wp.float32),
    means: wp.array3d(dtype=wp.float32),
    deviations: wp.array3d(dtype=wp.float32),
    log_probs: wp.array3d(dtype=wp.float32),
    values: wp.array3d(dtype=wp.float32),
):
    """Draw an environment's actions, newest [n, a], and write them to row `step` [1] of a rollout with all that PPO keeps of them.

    mean, deviation and noise of a standard normal distribution are [n, a], value is [n, 1]; the rollout's tensors have a row for each
    step. dim: n.
    """
    row = wp.int32(step[0])
    env = wp.tid()
    log_prob = wp.float32(0.0)
    for action in range(mean.shape[1]):
        spread = deviation[env, action]
        away = noise[env, action] * spread
        drawn = away + mean[env, action]
        away = drawn - mean[env, action]
        log_prob += -(away * away) / (2.0 * (spread * spread)) - wp.log(spread) - HALF_LOG_2_PI
        newest[env, action] = drawn
        actions[row, env, action] = drawn
        means[row, env, action] = mean[env, action]
        deviations[row, env, action] = spread
    log_probs[row, env, 0] = log_prob
    values[row, env, 0] = value[env, 0]


@wp.kernel(enable_backward=False)
def store_step(
    step: wp.array(dtype=wp.int64),
    gamma: wp.float32,
    reward: wp.array(dtype=wp.float32),
    done: wp.array(dtype=wp.uint8),
    is_time_out: wp.array(dtype=wp.bool),
    values: wp.array3d(dtype=wp.float32),
    most_frames: wp.int32,
    history: wp.array(dtype=wp.uint8),
    rewards: wp.array3d(dtype=wp.float32),
    dones: wp.array3d(dtype=wp.uint8),
):
    """Write an environment's reward and episode end to row `step` [1] of a rollout, and count the frames before the next one. dim: n.

    Where time ran out, the value of what would have followed is added, as `PPO.process_env_step` of rsl-rl-lib 5.5.1 does. history [n] is
    the number of earlier frames of the same episode, at most `most_frames`.
    """
    row = wp.int32(step[0])
    env = wp.tid()
    rest = wp.float32(0.0)
    if is_time_out[env]:
        rest = gamma * values[row, env, 0]
    rewards[row, env, 0] = reward[env] + rest
    dones[row, env, 0] = done[env]
    frames = wp.int32(0)
    if done[env] == wp.uint8(0):
        frames = wp.min(wp.int32(history[env]) + 1, most_frames)
    history[env] = wp.uint8(frames)
