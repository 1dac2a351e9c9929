/* The stand-in for libcuda.so.1, whose copies take time and go wrong. Besides what libcudamock.c reads of a GPU:
 *
 *   cuda.h2d = 55, cuda.d2h = 55, cuda.device = 1250, cuda.peer = 380
 *                                    GB/s that events count for a copy (nothing waits for them); device: one way
 *   cuda.peer.5 = 190                the same from this GPU to GPU 5
 *   cuda.no_peer = 1                 this GPU cannot reach others, nor others it
 *   cuda.corrupt.h2d = 7             a bit of the 7th word of every such copy is wrong; d2h, device, peer alike
 *   cuda.idle.d2h = 1                such a copy does nothing, and says that it did
 *
 * Copies on different streams count one after the other.
 *
 * What kernels for the memory do is in memory.c.
 *
 * CUDA_VISIBLE_DEVICES may name several UUIDs. */
#define cuInit base_cuInit
#define cuDeviceCanAccessPeer base_cuDeviceCanAccessPeer
#define cuMemcpyHtoDAsync_v2 base_cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync_v2 base_cuMemcpyDtoHAsync_v2
#define cuMemcpyDtoDAsync_v2 base_cuMemcpyDtoDAsync_v2
#define cuMemcpyPeerAsync base_cuMemcpyPeerAsync
#define cuModuleGetFunction base_cuModuleGetFunction
#define cuLaunchKernel base_cuLaunchKernel
#include "libcudamock.c"
#undef cuInit
#undef cuDeviceCanAccessPeer
#undef cuMemcpyHtoDAsync_v2
#undef cuMemcpyDtoHAsync_v2
#undef cuMemcpyDtoDAsync_v2
#undef cuMemcpyPeerAsync
#undef cuModuleGetFunction
#undef cuLaunchKernel

Result cuInit(u32 flags) {
    scenario_refresh();
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    seen_count = 0;
    for (int gpu = 0; gpu < gpu_count(); gpu++) {
        const char *uuid = gpu_value(gpu, "uuid");
        if (visible && (!uuid || !strstr(visible, uuid))) continue;
        if (number(gpu, "cuda.absent", 0)) continue;
        seen[seen_count++] = gpu;
    }
    Result planted = begin(__func__);
    if (planted) return planted;
    if (!seen_count) return NO_DEVICE;
    started = 1;
    return flags ? INVALID_VALUE : SUCCESS;
}

Result cuDeviceCanAccessPeer(int *out, int device, int peer) {
    CALL(0)
    Result answer = base_cuDeviceCanAccessPeer(out, device, peer);
    if (!answer && (number(seen[device], "cuda.no_peer", 0) || number(seen[peer], "cuda.no_peer", 0))) *out = 0;
    return answer;
}

static double rate(const char *kind, double otherwise, int to) {
    char name[64];
    snprintf(name, sizeof name, "cuda.%s", kind);
    double found = number(current, name, otherwise);
    snprintf(name, sizeof name, "cuda.%s.%d", kind, to);
    return to < 0 ? found : number(current, name, found);
}
static int idle(const char *kind) {
    char name[64];
    snprintf(name, sizeof name, "cuda.idle.%s", kind);
    return number(current, name, 0) != 0;
}
/* What a copy that went through leaves: time on the clock, and its wrong bit. */
static Result took(Result answer, const char *kind, double otherwise, int to, u64 where, size_t size) {
    char name[64];
    if (answer) return answer;
    clock_s += (double)size / rate(kind, otherwise, to) / 1e9;
    snprintf(name, sizeof name, "cuda.corrupt.%s", kind);
    size_t word = (size_t)number(current, name, 0);
    if (word && 4 * word < size) ((u32 *)where)[word] ^= 0x40;
    return SUCCESS;
}

Result cuMemcpyHtoDAsync_v2(u64 to, u64 from, size_t size, u64 stream) {
    CALL(1)
    return took(idle("h2d") ? SUCCESS : base_cuMemcpyHtoDAsync_v2(to, from, size, stream), "h2d", 55, -1, to, size);
}
Result cuMemcpyDtoHAsync_v2(u64 to, u64 from, size_t size, u64 stream) {
    CALL(1)
    return took(idle("d2h") ? SUCCESS : base_cuMemcpyDtoHAsync_v2(to, from, size, stream), "d2h", 55, -1, to, size);
}
Result cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t size, u64 stream) {
    CALL(1)
    return took(idle("device") ? SUCCESS : base_cuMemcpyDtoDAsync_v2(to, from, size, stream), "device", 1250, -1, to, size);
}
Result cuMemcpyPeerAsync(u64 to, u64 to_context, u64 from, u64 from_context, size_t size, u64 stream) {
    CALL(1)
    Result answer = idle("peer") ? SUCCESS : base_cuMemcpyPeerAsync(to, to_context, from, from_context, size, stream);
    if (!answer && from_context != (u64)(CONTEXT + current)) return INVALID_CONTEXT; /* the stream is the source's */
    return took(answer, "peer", 380, (int)(to_context - CONTEXT), to, size);
}

#include "memory.c"
