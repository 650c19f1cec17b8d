// The first convolution of a camera network on tensor cores: frames of C planes of H x W bytes, kernel KH x KW, stride 2, O outputs.
//
// Bytes are converted once per band of rows, in shared memory, and folded: 2 x 2 pixels become channels. So a convolution of stride 2
// becomes one of TY x TX taps and stride 1, and a fragment that is loaded once serves TY output rows. The next band is copied while
// this one is multiplied. Outputs are computed in groups of 8 (blockIdx.y).
//
// `first_layer.py` defines C, H, W, KH, KW, O, ELU, R, GROUPS, FORWARD_BLOCKS and WEIGHTS_BLOCKS, and checks the sizes. Needs sm_90
// (bulk copies). Sources: PTX ISA 8.x, "cp.async.bulk", "mbarrier", "ldmatrix", "mma.m16n8k16"; implicit GEMM: Chetlur et al. 2014,
// arXiv:1410.0759.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define OH ((H - KH) / 2 + 1)
#define OW ((W - KW) / 2 + 1)
#define M (OH * OW)
#define TY ((KH + 1) / 2)      // taps of the folded convolution
#define TX ((KW + 1) / 2)
#define F (4 * C)              // folded channels
#define K (TX * F)             // numbers in a folded row of taps: neighbours in shared memory
#define STEPS (K / 16)         // multiplications of depth 16, and one of depth 8 if REST
#define REST (K % 16 != 0)
#define TILES_K ((K + 15) / 16)
#define FW (W / 2)             // folded columns
#define POS (FW + 1)           // positions of a folded row in shared memory: an odd number avoids bank conflicts of stores
#define TILES ((OW + 15) / 16) // tiles of 16 output columns
#define WARPS (TILES * GROUPS)
#define THREADS (32 * WARPS)
#define BANDS ((OH + R - 1) / R)
#define FR (R + TY - 1)        // folded rows of a band
#define RG ((R + GROUPS - 1) / GROUPS)
#define NEEDED_ROWS(rows) (2 * ((rows) + TY - 1))

#define RAW_PLANE (2 * FR * W)
#define PLANE_AT(c) ((c) * RAW_PLANE + ((c) >> 1) * 16)   // 16 more bytes before every second plane: fewer bank conflicts
#define RAW (PLANE_AT(C))
#define BEYOND (TILES_K * 32 + 16 * F * 2) // bytes that the last tile reads after the last position
#define FOLDED (FR * POS * F * 2 + BEYOND)
#define GRAD (R * OW * O * 2)

__device__ __forceinline__ u32 shared_of(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void barrier_init(u32 bar) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
}
__device__ __forceinline__ void barrier_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 bar, u32 phase) {
    asm volatile(
        "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(bar),
        "r"(phase)
        : "memory");
}
__device__ __forceinline__ void bulk(u32 target, const void* source, u32 bytes, u32 bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(target), "l"(source),
                 "r"(bytes), "r"(bar)
                 : "memory");
}
__device__ __forceinline__ void ldmatrix4(u32* a, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address));
}
__device__ __forceinline__ void ldmatrix2(u32* a, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(a[0]), "=r"(a[1]) : "r"(address));
}
__device__ __forceinline__ void ldmatrix4t(u32* a, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address));
}
__device__ __forceinline__ void ldmatrix2t(u32* a, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(a[0]), "=r"(a[1]) : "r"(address));
}
__device__ __forceinline__ void mma16_half(float* c, const u32* a, const u32* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma8_half(float* c, const u32* a, u32 b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}
__device__ __forceinline__ void mma16_bf(float* c, const u32* a, const u32* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two bytes as two halves: 0x6400 + byte is 1024 + byte.
__device__ __forceinline__ u32 halves(u32 word, u32 selector) {
    u32 x, y;
    asm("prmt.b32 %0, %1, 0x64646464, %2;" : "=r"(x) : "r"(word), "r"(selector));
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(x), "r"(0x64006400u));
    return y;
}
// Two bytes as two bfloat16: 0x4300 + the low 7 bits is 128 + those bits. That is the byte if bit 7 is set; otherwise subtract 128.
__device__ __forceinline__ u32 bfloats(u32 word, u32 selector) {
    u32 x, y;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(x) : "r"(word), "r"(selector));
    u32 value = (x & 0x007F007Fu) | 0x43004300u;
    u32 less = ((~x) & 0x00800080u) * 0x86u;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(value), "r"(less));
    return y;
}

// Fold raw bytes [C, 2 * FR, W] to [FR, POS, F], channel c * 4 + (y & 1) * 2 + (x & 1). A task has two planes, two rows, 8 columns.
template <bool BF>
__device__ __forceinline__ void fold(const u8* raw, u8* folded, int rows) {
    for (int task = threadIdx.x; task < rows * (C / 2) * (W / 8); task += THREADS) {
        int two = (task >> 1) / (rows * (C / 2)), rest = (task >> 1) - two * (rows * (C / 2));
        int y2 = rest / (C / 2), pair = rest - y2 * (C / 2);
        int chunk = two * 2 + (task & 1);
        const u8* from = raw + PLANE_AT(pair * 2) + y2 * 2 * W + chunk * 8;
        uint2 a = *(const uint2*)from, b = *(const uint2*)(from + W);
        uint2 c = *(const uint2*)(from + RAW_PLANE), d = *(const uint2*)(from + RAW_PLANE + W);
        u8* to = folded + ((y2 * POS + chunk * 4) * F + pair * 8) * 2;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            u32 s = (i & 1) ? 0x4342u : 0x4140u;
            u32 wa = i < 2 ? a.x : a.y, wb = i < 2 ? b.x : b.y, wc = i < 2 ? c.x : c.y, wd = i < 2 ? d.x : d.y;
            uint4 v = BF ? make_uint4(bfloats(wa, s), bfloats(wb, s), bfloats(wc, s), bfloats(wd, s))
                         : make_uint4(halves(wa, s), halves(wb, s), halves(wc, s), halves(wd, s));
            *(uint4*)(to + i * F * 2) = v;
        }
    }
}

__device__ __forceinline__ int rows_of(int band) { return min(R, OH - band * R); }

__device__ __forceinline__ void copy_frames(u8* raw, const u8* frames, const long long* planes, int image, int band, u32 bar) {
    u32 bytes = NEEDED_ROWS(rows_of(band)) * W;
#pragma unroll
    for (int c = 0; c < C; c++)
        bulk(shared_of(raw + PLANE_AT(c)), frames + planes[(long long)image * C + c] * (H * W) + band * R * 2 * W, bytes, bar);
}

// Half weight of output o, tap row t and folded number k = tx * F + c * 4 + py * 2 + px; 0 outside the kernel. weight [O, C, KH, KW].
__device__ __forceinline__ u32 weight_of(const float* weight, int t, int k, int o) {
    int f = k % F, x = k / F * 2 + (f & 1), y = t * 2 + ((f >> 1) & 1);
    u16 found = 0;
    if (k < K && x < KW && y < KH) asm("cvt.rn.f16.f32 %0, %1;" : "=h"(found) : "f"(weight[((o * C + (f >> 2)) * KH + y) * KW + x]));
    return found;
}

__device__ __forceinline__ float activated(float x) { return ELU ? (x > 0.0f ? x : expm1f(x)) : fmaxf(x, 0.0f); }

// Zero the position after the last column, and the bytes after the last row. Once: fold() does not write there.
__device__ __forceinline__ void clear_margins(u8* folded) {
    for (int i = threadIdx.x; i < FR * F / 2 + BEYOND / 4; i += THREADS) {
        if (i < FR * F / 2) *(u32*)(folded + ((i / (F / 2)) * POS + FW) * F * 2 + (i % (F / 2)) * 4) = 0;
        else *(u32*)(folded + FR * POS * F * 2 + (i - FR * F / 2) * 4) = 0;
    }
}

// out [b, M, O] bfloat16 = activation(weight * bytes / 255 + shift[b]). weight [O, C, KH, KW] float32.
extern "C" __global__ void __launch_bounds__(THREADS, FORWARD_BLOCKS)
    forward(const u8* frames, const long long* planes, const float* weight, const float* shift, u32* out, int count) {
    extern __shared__ __align__(128) u8 memory[];
    u8 *raw = memory, *folded = memory + RAW;
    __shared__ __align__(8) u64 barrier;
    u32 bar = shared_of(&barrier);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, tile = warp % TILES, group = warp / TILES;
    if (threadIdx.x == 0) barrier_init(bar);
    clear_margins(folded);
    int o0 = blockIdx.y * 8;   // the outputs of this block
    u32 w[TY][TILES_K][2];
#pragma unroll
    for (int t = 0; t < TY; t++)
#pragma unroll
        for (int s = 0; s < TILES_K; s++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int k = s * 16 + i * 8 + (lane & 3) * 2;
                w[t][s][i] = weight_of(weight, t, k, o0 + (lane >> 2)) | weight_of(weight, t, k + 1, o0 + (lane >> 2)) << 16;
            }
    __syncthreads();
    int items = count * BANDS, phase = 0;
    int item = blockIdx.x;
    if (threadIdx.x == 0 && item < items) {
        barrier_expect(bar, C * NEEDED_ROWS(rows_of(item % BANDS)) * W);
        copy_frames(raw, frames, planes, item / BANDS, item % BANDS, bar);
    }
    for (; item < items; item += gridDim.x) {
        int image = item / BANDS, band = item % BANDS, rows = rows_of(band);
        barrier_wait(bar, phase);
        phase ^= 1;
        fold<false>(raw, folded, rows + TY - 1);
        __syncthreads();
        int next = item + gridDim.x;
        if (threadIdx.x == 0 && next < items) {
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            barrier_expect(bar, C * NEEDED_ROWS(rows_of(next % BANDS)) * W);
            copy_frames(raw, frames, planes, next / BANDS, next % BANDS, bar);
        }
        const float* shifts = shift + (long long)image * O + o0 + (lane & 3) * 2;
        float s0 = shifts[0], s1 = shifts[1];
        int first = group * RG, last = min(first + RG, rows), x0 = tile * 16;
        u32 address = shared_of(folded) + ((first * POS + x0 + (lane & 15)) * F + (lane >> 4) * 8) * 2;
        float acc[TY][4];
#pragma unroll
        for (int i = 0; i < TY; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) acc[i][j] = 0.0f;
        // Folded row r is tap row t of output row r - t, which acc[t] accumulates.
        for (int r = first; r < last + TY - 1; r++) {
            u32 a[TILES_K][4];
#pragma unroll
            for (int s = 0; s < STEPS; s++) ldmatrix4(a[s], address + s * 32);
            if (REST) ldmatrix2(a[TILES_K - 1], address - (lane >> 4) * 16 + STEPS * 32);
            address += POS * F * 2;
#pragma unroll
            for (int t = 0; t < TY; t++) {
#pragma unroll
                for (int s = 0; s < STEPS; s++) mma16_half(acc[t], a[s], w[t][s]);
                if (REST) mma8_half(acc[t], a[TILES_K - 1], w[t][TILES_K - 1][0]);
            }
            int y = r - (TY - 1);
            if (y >= first) {
                int x = x0 + (lane >> 2), m = (band * R + y) * OW + x;
                u32* to = out + ((long long)image * M + m) * (O / 2) + o0 / 2 + (lane & 3);
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    float u = activated(acc[TY - 1][half * 2] * (1.0f / 255.0f) + s0);
                    float v = activated(acc[TY - 1][half * 2 + 1] * (1.0f / 255.0f) + s1);
                    u32 both;
                    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(v), "f"(u));
                    if (x + half * 8 < OW) to[half * 8 * (O / 2)] = both;
                }
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
#pragma unroll
                for (int t = TY - 1; t > 0; t--) acc[t][j] = acc[t - 1][j];
                acc[0][j] = 0.0f;
            }
        }
        __syncthreads();
    }
}

// partial [blocks, TY, 16 * TILES_K, O] = bytes x grad summed over the block's images; sums [b, O] of grad [b, M, O] bfloat16.
extern "C" __global__ void __launch_bounds__(THREADS, WEIGHTS_BLOCKS)
    weights(const u8* frames, const long long* planes, const u8* grad, float* partial, float* sums, int count) {
    extern __shared__ __align__(128) u8 memory[];
    u8 *raw = memory, *folded = memory + RAW, *grads = folded + FOLDED;
    __shared__ __align__(8) u64 barrier;
    __shared__ __align__(16) u32 zeros[4];
    __shared__ float of_image[WARPS][8];
    u32 bar = shared_of(&barrier);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, tile = warp % TILES, group = warp / TILES;
    if (threadIdx.x == 0) barrier_init(bar);
    if (threadIdx.x < 4) zeros[threadIdx.x] = 0;
    clear_margins(folded);
    int o0 = blockIdx.y * 8;
    float acc[TY][TILES_K][4];
#pragma unroll
    for (int t = 0; t < TY; t++)
#pragma unroll
        for (int m = 0; m < TILES_K; m++)
#pragma unroll
            for (int j = 0; j < 4; j++) acc[t][m][j] = 0.0f;
    __syncthreads();
    int own = blockIdx.x < count ? (count - 1 - (int)blockIdx.x) / (int)gridDim.x + 1 : 0, items = own * BANDS, phase = 0;
    if (threadIdx.x == 0 && items) {
        barrier_expect(bar, C * NEEDED_ROWS(rows_of(0)) * W + rows_of(0) * OW * O * 2);
        copy_frames(raw, frames, planes, blockIdx.x, 0, bar);
        bulk(shared_of(grads), grad + (long long)blockIdx.x * M * O * 2, rows_of(0) * OW * O * 2, bar);
    }
    float total = 0.0f;
    for (int item = 0; item < items; item++) {
        int image = blockIdx.x + item / BANDS * gridDim.x, band = item % BANDS, rows = rows_of(band);
        barrier_wait(bar, phase);
        phase ^= 1;
        fold<true>(raw, folded, rows + TY - 1);
        __syncthreads();
        const u8* g = grads + (item & 1) * GRAD;
        if (threadIdx.x == 0 && item + 1 < items) {
            int image1 = blockIdx.x + (item + 1) / BANDS * gridDim.x, band1 = (item + 1) % BANDS, rows1 = rows_of(band1);
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            barrier_expect(bar, C * NEEDED_ROWS(rows1) * W + rows1 * OW * O * 2);
            copy_frames(raw, frames, planes, image1, band1, bar);
            bulk(shared_of(grads + ((item + 1) & 1) * GRAD), grad + ((long long)image1 * M + band1 * R * OW) * O * 2, rows1 * OW * O * 2, bar);
        }
        int first = group * RG, last = min(first + RG, rows), x0 = tile * 16;
        u32 address = shared_of(folded) + ((first * POS + x0 + (lane & 7) + ((lane >> 4) & 1) * 8) * F + ((lane >> 3) & 1) * 8) * 2;
        int x = x0 + (lane & 15);
        u32 gaddress = x < OW ? shared_of(g) + ((first * OW + x) * O + o0) * 2 : shared_of(zeros), gstep = x < OW ? OW * O * 2 : 0;
        u32 b[TY][2];
#pragma unroll
        for (int t = 0; t < TY; t++) b[t][0] = b[t][1] = 0;
        for (int r = first; r < last + TY - 1; r++) {
            if (r < last) {   // b[t]: gradient of output row r - t
                ldmatrix2t(b[0], gaddress);
                gaddress += gstep;
                total += __uint_as_float(b[0][0] << 16) + __uint_as_float(b[0][0] & 0xFFFF0000u) + __uint_as_float(b[0][1] << 16) +
                         __uint_as_float(b[0][1] & 0xFFFF0000u);
            } else b[0][0] = b[0][1] = 0;
#pragma unroll
            for (int m = 0; m < TILES_K; m++) {
                u32 a[4];
                ldmatrix4t(a, address + m * 32);
#pragma unroll
                for (int t = 0; t < TY; t++) mma16_bf(acc[t][m], a, b[t]);
            }
            address += POS * F * 2;
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int t = TY - 1; t > 0; t--) b[t][i] = b[t - 1][i];
        }
        if (band == BANDS - 1) {
            total += __shfl_xor_sync(0xFFFFFFFFu, total, 1);
            total += __shfl_xor_sync(0xFFFFFFFFu, total, 2);
            if ((lane & 3) == 0) of_image[warp][lane >> 2] = total;
            total = 0.0f;
        }
        __syncthreads();
        if (band == BANDS - 1 && threadIdx.x < 8) {
            float s = 0.0f;
            for (int i = 0; i < WARPS; i++) s += of_image[i][threadIdx.x];
            sums[(long long)image * O + o0 + threadIdx.x] = s;
        }
    }
    // Warps add one after the other, so that every run gives the same sum.
    float* all = (float*)folded;
    __syncthreads();
    for (int i = threadIdx.x; i < TY * TILES_K * 16 * 8; i += THREADS) all[i] = 0.0f;
    for (int turn = 0; turn < WARPS; turn++) {
        __syncthreads();
        if (warp == turn)
#pragma unroll
            for (int t = 0; t < TY; t++)
#pragma unroll
                for (int m = 0; m < TILES_K; m++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        all[((t * TILES_K + m) * 16 + (lane >> 2) + (j >> 1) * 8) * 8 + (lane & 3) * 2 + (j & 1)] += acc[t][m][j];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < TY * TILES_K * 16 * 8; i += THREADS)
        partial[(((long long)blockIdx.x * TY * TILES_K * 16) + i / 8) * O + o0 + i % 8] = all[i];
}
