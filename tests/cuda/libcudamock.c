/* A stand-in for libcuda.so.1 and libcublas.so: no GPU, but every call checked as the driver would, and results computed.
 *
 * It serves the scenario file of the NVML stand-in (lab/nvml/nvmlmock.c), so both see the same GPUs. Of a GPU it reads
 * bus_id, uuid and compute_capability, and
 *
 *   cuda.memory = 8388608            bytes of device memory that are free
 *   cuda.product_s = 0.05            seconds that events count for one matrix product (nothing waits for them)
 *   processes.own = 1                NVML lists the processes that have a context on this GPU
 *   compute_mode = 3                 exclusive process: a second process with a context on this GPU is refused (46)
 *   cuda.absent = 1                  CUDA does not see this GPU
 *   cuda.flip = 7                    one bit of the 7th product is wrong
 *   cuda.wrong = 1                   the same bit of every product is wrong; cuda.wrong.cublas = 1: of every one by cuBLAS
 *   cuda.error.FUNCTION = 214        a call answers this; cuda.after.FUNCTION = 5: from its fifth time on
 *   cuda.hang.FUNCTION = 1           a call never comes back; cuda.crash.FUNCTION = 1: it dies of SIGSEGV. After as above
 *
 * Kernels are known by their names and what their PTX multiplies with; work is done when it is queued. What a driver
 * refuses is refused: calls before cuInit (3) or without a context (201), foreign handles (400), memory that was not
 * allocated (700), a grid that does not cover the matrix or shared memory that was not asked for (1). */
#define _GNU_SOURCE
#include "../../lab/nvml/scenario.h"

#include <dlfcn.h>
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
       INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, PEER_ALREADY_ENABLED = 704 };
enum { MOST = 256, MOMENT_US = 50000 };

typedef int Result;
typedef unsigned int u32;
typedef uint64_t u64;

static u32 scheduled[MOST_GPUS]; /* how a context waits; 4: without using a core */
static int started, retained[MOST_GPUS], current = -1; /* the GPU of the current context */
static int seen[MOST_GPUS], seen_count;
static struct { u64 base; size_t size; int gpu, host; } blocks[MOST];
static struct { char *text; int gpu; } modules[MOST];
static struct { int module, kind; u32 shared; } kernels[MOST];
static struct { int gpu; double at; } events[MOST];
static int streams[MOST], module_count, kernel_count, event_count, stream_count;
static double clock_s;
static int products;

/* Handles are small numbers in ranges of their own, so that a foreign one is seen. */
enum { CONTEXT = 0x1000, STREAM = 0x2000, EVENT = 0x3000, MODULE = 0x4000, KERNEL = 0x5000, CUBLAS = 0x6000 };

static const char *fault(const char *kind, const char *function) {
    static struct { char name[64]; int calls; } counted[MOST];
    char name[120];
    int gpu = current >= 0 ? current : seen_count ? seen[0] : 0;
    int calls = 1;
    if (!strcmp(kind, "error")) { /* looked up first of all: counts the call */
        for (int i = 0; i < MOST; i++) {
            if (!counted[i].name[0]) snprintf(counted[i].name, sizeof counted[i].name, "%s", function);
            if (strcmp(counted[i].name, function)) continue;
            calls = ++counted[i].calls;
            break;
        }
    } else {
        for (int i = 0; i < MOST; i++)
            if (!strcmp(counted[i].name, function)) calls = counted[i].calls;
    }
    snprintf(name, sizeof name, "cuda.after.%s", function);
    const char *after = gpu_value(gpu, name);
    if (after && calls < atoi(after)) return NULL;
    snprintf(name, sizeof name, "cuda.%s.%s", kind, function);
    return gpu_value(gpu, name);
}

static Result begin(const char *function) {
    const char *error = fault("error", function);
    if (fault("crash", function)) raise(SIGSEGV);
    while (fault("hang", function)) sleep(60);
    return error ? atoi(error) : SUCCESS;
}

#define CALL(needs_context)                                     \
    if (!started) return NOT_INITIALIZED;                       \
    { Result planted_ = begin(__func__); if (planted_) return planted_; } \
    if ((needs_context) && current < 0) return INVALID_CONTEXT;

static int has_memory(u64 at, size_t size, int host) {
    for (int i = 0; i < MOST; i++)
        if (blocks[i].base && blocks[i].host == host && at >= blocks[i].base && at + size <= blocks[i].base + blocks[i].size) return 1;
    return 0;
}
static int is(u64 handle, int range, int count) { return handle >= (u64)range && handle < (u64)(range + count); }
static int good_stream(u64 handle) { return handle == 0 || (is(handle, STREAM, stream_count) && streams[handle - STREAM] == current); }
static double number(int gpu, const char *name, double otherwise) {
    const char *value = gpu_value(gpu, name);
    return value ? atof(value) : otherwise;
}

/* ---- start and devices ---- */

Result cuInit(u32 flags) {
    scenario_refresh();
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    seen_count = 0;
    for (int gpu = 0; gpu < gpu_count(); gpu++) {
        const char *uuid = gpu_value(gpu, "uuid");
        if (visible && (!uuid || strcmp(visible, uuid))) continue;
        seen[seen_count++] = gpu;
    }
    Result planted = begin(__func__);
    if (planted) return planted;
    if (seen_count == 1 && number(seen[0], "cuda.absent", 0)) seen_count = 0;
    if (!seen_count) return NO_DEVICE;
    started = 1;
    return flags ? INVALID_VALUE : SUCCESS;
}
Result cuDriverGetVersion(int *out) { *out = 12040; return SUCCESS; }
Result cuGetErrorName(Result number_, const char **out) {
    static const struct { Result number; const char *name; } names[] = {
        {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
        {100, "CUDA_ERROR_NO_DEVICE"},
        {101, "CUDA_ERROR_INVALID_DEVICE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"}, {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
        {218, "CUDA_ERROR_INVALID_PTX"}, {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"}, {400, "CUDA_ERROR_INVALID_HANDLE"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"}, {802, "CUDA_ERROR_SYSTEM_NOT_READY"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
        {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number_) { *out = names[i].name; return SUCCESS; }
    *out = NULL;
    return INVALID_VALUE;
}
Result cuDeviceGetCount(int *out) { CALL(0) *out = seen_count; return SUCCESS; }
Result cuDeviceGet(int *out, int ordinal) {
    CALL(0)
    *out = ordinal;
    return ordinal >= 0 && ordinal < seen_count ? SUCCESS : INVALID_DEVICE;
}
Result cuDeviceGetByPCIBusId(int *out, const char *bus_id) {
    CALL(0)
    unsigned d, b, v, domain, bus, device;
    if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3) return INVALID_VALUE;
    for (int i = 0; i < seen_count; i++) {
        const char *own = gpu_value(seen[i], "bus_id");
        if (own && sscanf(own, "%x:%x:%x", &d, &b, &v) == 3 && d == domain && b == bus && v == device) { *out = i; return SUCCESS; }
    }
    return INVALID_DEVICE;
}
Result cuDeviceGetAttribute(int *out, int which, int device) {
    CALL(0)
    if (device < 0 || device >= seen_count) return INVALID_DEVICE;
    int major = 0, minor = 0;
    const char *capability = gpu_value(seen[device], "compute_capability");
    if (capability) sscanf(capability, "%d.%d", &major, &minor);
    *out = which == 75 ? major : which == 76 ? minor : which == 16 ? 132 : -1;
    return *out < 0 ? INVALID_VALUE : SUCCESS;
}
/* Notes in the folder SCENARIO.users, one for each process with a context: the stand-in of NVML lists those that live. */
static void name_of_note(char *name, size_t room, const char *file) {
    const char *scenario = getenv("NVML_MOCK_SCENARIO");
    snprintf(name, room, "%.4000s.users/%s", scenario ? scenario : "/etc/nvml-mock.conf", file);
}
static void note_user(int gpu, int has_context) {
    char file[40], name[4200];
    name_of_note(name, sizeof name, "");
    mkdir(name, 0755);
    snprintf(file, sizeof file, "%d.%d", gpu, (int)getpid());
    name_of_note(name, sizeof name, file);
    FILE *note = has_context ? fopen(name, "w") : NULL;
    if (note) fclose(note);
    if (!has_context) unlink(name);
}
static int has_other_user(int gpu) {
    char name[4200];
    name_of_note(name, sizeof name, "");
    DIR *listed = opendir(name);
    int found = 0;
    for (struct dirent *each; listed && (each = readdir(listed));) {
        int its_gpu, pid;
        if (sscanf(each->d_name, "%d.%d", &its_gpu, &pid) == 2 && its_gpu == gpu && pid != getpid() && !kill(pid, 0)) found = 1;
    }
    if (listed) closedir(listed);
    return found;
}
static int is_noted(int gpu) { return gpu_value(gpu, "processes.own") || number(gpu, "compute_mode", 0) == 3; }
Result cuDevicePrimaryCtxRetain(u64 *out, int device) {
    CALL(0)
    if (device < 0 || device >= seen_count) return INVALID_DEVICE;
    if (number(seen[device], "compute_mode", 0) == 3 && has_other_user(seen[device])) return DEVICE_UNAVAILABLE;
    retained[seen[device]] = 1;
    if (is_noted(seen[device])) note_user(seen[device], 1);
    *out = (u64)(CONTEXT + seen[device]);
    return SUCCESS;
}
Result cuDevicePrimaryCtxSetFlags_v2(int device, u32 flags) {
    CALL(0)
    if (device < 0 || device >= seen_count) return INVALID_DEVICE;
    return flags > 7 || flags == 3 ? INVALID_VALUE : retained[seen[device]] ? SUCCESS : (scheduled[seen[device]] = flags, SUCCESS);
}
Result cuCtxSetCurrent(u64 context) {
    CALL(0)
    if (!is(context, CONTEXT, MOST_GPUS) || !retained[context - CONTEXT]) return INVALID_CONTEXT;
    current = (int)(context - CONTEXT);
    return SUCCESS;
}
Result cuDevicePrimaryCtxRelease_v2(int device) {
    CALL(0)
    if (device < 0 || device >= seen_count || !retained[seen[device]]) return INVALID_CONTEXT;
    retained[seen[device]] = 0;
    if (is_noted(seen[device])) note_user(seen[device], 0);
    current = -1;
    return SUCCESS;
}
Result cuCtxSynchronize(void) { CALL(1) return SUCCESS; }
Result cuDeviceCanAccessPeer(int *out, int device, int peer) {
    CALL(0)
    *out = device != peer;
    return device >= 0 && device < seen_count && peer >= 0 && peer < seen_count ? SUCCESS : INVALID_DEVICE;
}
Result cuCtxEnablePeerAccess(u64 peer, u32 flags) {
    CALL(1)
    static int enabled[MOST_GPUS][MOST_GPUS];
    if (flags || !is(peer, CONTEXT, MOST_GPUS)) return INVALID_VALUE;
    if (enabled[current][peer - CONTEXT]++) return PEER_ALREADY_ENABLED;
    return SUCCESS;
}

/* ---- memory ---- */

static size_t used(int gpu) {
    size_t sum = 0;
    for (int i = 0; i < MOST; i++)
        if (blocks[i].base && !blocks[i].host && blocks[i].gpu == gpu) sum += blocks[i].size;
    return sum;
}
Result cuMemGetInfo_v2(size_t *free_, size_t *total) {
    CALL(1)
    *total = (size_t)number(current, "cuda.memory", 8 << 20);
    *free_ = *total - used(current);
    return SUCCESS;
}
static Result new_block(u64 *out, size_t size, int host) {
    if (!size) return INVALID_VALUE;
    if (!host && used(current) + size > (size_t)number(current, "cuda.memory", 8 << 20)) return OUT_OF_MEMORY;
    for (int i = 0; i < MOST; i++) {
        if (blocks[i].base) continue;
        blocks[i].base = (u64)aligned_alloc(4096, (size + 4095) / 4096 * 4096);
        memset((void *)blocks[i].base, 0xA5, size);
        blocks[i].size = size, blocks[i].gpu = current, blocks[i].host = host;
        *out = blocks[i].base;
        return SUCCESS;
    }
    return OUT_OF_MEMORY;
}
static Result drop_block(u64 base, int host) {
    for (int i = 0; i < MOST; i++)
        if (base && blocks[i].base == base && blocks[i].host == host) { free((void *)base); blocks[i].base = 0; return SUCCESS; }
    return INVALID_VALUE;
}
Result cuMemAlloc_v2(u64 *out, size_t size) { CALL(1) return new_block(out, size, 0); }
Result cuMemFree_v2(u64 base) { CALL(1) return drop_block(base, 0); }
Result cuMemHostAlloc(u64 *out, size_t size, u32 flags) { CALL(1) (void)flags; return new_block(out, size, 1); }
Result cuMemFreeHost(u64 base) { CALL(1) return drop_block(base, 1); }
static Result copy(u64 to, u64 from, size_t size, int to_known, int from_known) {
    if (!to_known || !from_known) return INVALID_VALUE;
    memmove((void *)to, (void *)from, size);
    return SUCCESS;
}
Result cuMemcpyHtoD_v2(u64 to, u64 from, size_t size) { CALL(1) return copy(to, from, size, has_memory(to, size, 0), 1); }
Result cuMemcpyDtoH_v2(u64 to, u64 from, size_t size) { CALL(1) return copy(to, from, size, 1, has_memory(from, size, 0)); }
Result cuMemcpyHtoDAsync_v2(u64 to, u64 from, size_t size, u64 stream) {
    CALL(1)
    if (!good_stream(stream)) return INVALID_HANDLE;
    return copy(to, from, size, has_memory(to, size, 0), has_memory(from, size, 1));
}
Result cuMemcpyDtoHAsync_v2(u64 to, u64 from, size_t size, u64 stream) {
    CALL(1)
    if (!good_stream(stream)) return INVALID_HANDLE;
    return copy(to, from, size, has_memory(to, size, 1), has_memory(from, size, 0));
}
Result cuMemcpyDtoDAsync_v2(u64 to, u64 from, size_t size, u64 stream) {
    CALL(1)
    if (!good_stream(stream)) return INVALID_HANDLE;
    return copy(to, from, size, has_memory(to, size, 0), has_memory(from, size, 0));
}
Result cuMemcpyPeerAsync(u64 to, u64 to_context, u64 from, u64 from_context, size_t size, u64 stream) {
    CALL(1)
    if (!good_stream(stream) || !is(to_context, CONTEXT, MOST_GPUS) || !is(from_context, CONTEXT, MOST_GPUS)) return INVALID_HANDLE;
    return copy(to, from, size, has_memory(to, size, 0), has_memory(from, size, 0));
}
Result cuMemsetD32Async(u64 at, u32 word, size_t count, u64 stream) {
    CALL(1)
    if (!good_stream(stream)) return INVALID_HANDLE;
    if (at % 4 || !has_memory(at, 4 * count, 0)) return INVALID_VALUE;
    for (size_t i = 0; i < count; i++) ((u32 *)at)[i] = word;
    return SUCCESS;
}

/* ---- streams and events ---- */

Result cuStreamCreate(u64 *out, u32 flags) {
    CALL(1)
    if (flags > 1 || stream_count == MOST) return INVALID_VALUE;
    streams[stream_count] = current;
    *out = (u64)(STREAM + stream_count++);
    return SUCCESS;
}
/* Whoever waits for work waits a moment without computing, as beside a real GPU: a load of a second costs no second. */
Result cuStreamSynchronize(u64 stream) {
    CALL(1)
    if (scheduled[current] != 4) return INVALID_VALUE; /* nodegate's own rule */
    static double waited_s;
    if (clock_s > waited_s) usleep(MOMENT_US);
    waited_s = clock_s;
    return good_stream(stream) ? SUCCESS : INVALID_HANDLE;
}
Result cuStreamDestroy_v2(u64 stream) { CALL(1) return stream && good_stream(stream) ? SUCCESS : INVALID_HANDLE; }
Result cuStreamWaitEvent(u64 stream, u64 event, u32 flags) {
    CALL(1)
    return !flags && good_stream(stream) && is(event, EVENT, event_count) ? SUCCESS : INVALID_HANDLE;
}
Result cuEventCreate(u64 *out, u32 flags) {
    CALL(1)
    if (flags || event_count == MOST) return INVALID_VALUE;
    events[event_count].gpu = current, events[event_count].at = -1;
    *out = (u64)(EVENT + event_count++);
    return SUCCESS;
}
Result cuEventRecord(u64 event, u64 stream) {
    CALL(1)
    if (!is(event, EVENT, event_count) || !good_stream(stream)) return INVALID_HANDLE;
    events[event - EVENT].at = clock_s;
    return SUCCESS;
}
Result cuEventSynchronize(u64 event) { CALL(1) return is(event, EVENT, event_count) ? SUCCESS : INVALID_HANDLE; }
Result cuEventElapsedTime(float *out, u64 start, u64 end) {
    CALL(1)
    if (!is(start, EVENT, event_count) || !is(end, EVENT, event_count)) return INVALID_HANDLE;
    if (events[start - EVENT].at < 0 || events[end - EVENT].at < 0) return INVALID_HANDLE;
    *out = (float)((events[end - EVENT].at - events[start - EVENT].at) * 1000);
    return SUCCESS;
}
Result cuEventDestroy_v2(u64 event) { CALL(1) return is(event, EVENT, event_count) ? SUCCESS : INVALID_HANDLE; }

/* ---- kernels ---- */

enum { FILL, COMPARE, BF16, FP16, TF32, FP32, FP64, FP8, FP4 };
static const int element_bits[] = {0, 0, 16, 16, 32, 32, 64, 8, 4}, result_bytes[] = {0, 0, 2, 2, 4, 4, 8, 2, 2};

Result cuModuleLoadDataEx(u64 *out, const char *text, u32 count, const int *options, void **values) {
    CALL(1)
    const char *target = strstr(text, ".target sm_"), *capability = gpu_value(current, "compute_capability");
    int major = 0, minor = 0;
    if (capability) sscanf(capability, "%d.%d", &major, &minor);
    if (strncmp(text, ".version ", 9) || !target || module_count == MOST || atoi(target + 11) > 10 * major + minor) {
        for (u32 i = 0; i < count; i++)
            if (options[i] == 5) snprintf(values[i], 64, "ptxas fatal: no code for this GPU\n");
        return INVALID_PTX;
    }
    modules[module_count].text = strdup(text);
    modules[module_count].gpu = current;
    *out = (u64)(MODULE + module_count++);
    return SUCCESS;
}
static int kind_of(const char *name, const char *text) {
    static const struct { const char *sign; int kind; } signs[] = {
        {".f32.bf16.bf16.f32", BF16}, {".f32.f16.f16.f32", FP16}, {".f32.tf32.tf32.f32", TF32}, {"fma.rn.f32", FP32}, {"fma.rn.f64", FP64}};
    if (!strcmp(name, "nodegate_fill")) return FILL;
    if (!strcmp(name, "nodegate_compare")) return COMPARE;
    for (int i = 0; i < 5; i++)
        if (strstr(text, signs[i].sign)) return signs[i].kind;
    return -1;
}
Result cuModuleGetFunction(u64 *out, u64 module, const char *name) {
    CALL(1)
    if (!is(module, MODULE, module_count) || modules[module - MODULE].gpu != current) return INVALID_HANDLE;
    char entry[120];
    snprintf(entry, sizeof entry, ".visible .entry %s(", name);
    const char *text = modules[module - MODULE].text;
    if (!strstr(text, entry) || kernel_count == MOST) return NOT_FOUND;
    kernels[kernel_count].module = (int)(module - MODULE);
    kernels[kernel_count].kind = kind_of(name, text);
    *out = (u64)(KERNEL + kernel_count++);
    return SUCCESS;
}
Result cuFuncSetAttribute(u64 kernel, int which, int value) {
    CALL(1)
    if (!is(kernel, KERNEL, kernel_count) || which != 8) return INVALID_VALUE;
    if (value > 101376) return INVALID_VALUE; /* what the smallest GPU has */
    kernels[kernel - KERNEL].shared = (u32)value;
    return SUCCESS;
}

static u32 hashed(u32 position, u32 seed) {
    u32 h = position * 0x9E3779B1u + seed;
    h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13)) * 0xC2B2AE35u;
    return h ^ (h >> 16);
}
static double element(const void *from, size_t at, int kind) {
    union { u32 bits; float value; } single;
    if (kind == FP64) return ((const double *)from)[at];
    if (kind == FP8) { /* e4m3 */
        uint8_t byte = ((const uint8_t *)from)[at];
        int exponent = byte >> 3 & 15;
        double size = exponent ? ldexp(8 + (byte & 7), exponent - 10) : ldexp(byte & 7, -9);
        return byte & 0x80 ? -size : size;
    }
    if (kind == FP4) { /* e2m1, two in a byte */
        int four = ((const uint8_t *)from)[at / 2] >> (at % 2 ? 4 : 0) & 15, exponent = four >> 1 & 3;
        double size = exponent ? ldexp(2 + (four & 1), exponent - 2) : ldexp(four & 1, -1);
        return four & 8 ? -size : size;
    }
    if (kind == FP16) return (double)((const _Float16 *)from)[at];
    if (kind != BF16) return ((const float *)from)[at];
    single.bits = (u32)((const uint16_t *)from)[at] << 16;
    return single.value;
}
static void put(void *to, size_t at, int kind, double value) {
    union { u32 bits; float value; } single;
    single.value = (float)value;
    if (kind == FP64) ((double *)to)[at] = value;
    else if (kind == FP16) ((_Float16 *)to)[at] = (_Float16)value;
    else if (kind != BF16 && kind != FP8 && kind != FP4) ((float *)to)[at] = single.value;
    else ((uint16_t *)to)[at] = (uint16_t)((single.bits + 0x7FFF + (single.bits >> 16 & 1)) >> 16);
}

/* The last product is kept: the same operands give the same result. */
static struct { void *result; u64 a, b; u32 n; int kind, fills; } kept;
static int fills;

static int by_library;

static Result multiply(u64 a, u64 b, u64 c, u32 n, int kind) {
    size_t operand = (size_t)n * n * (size_t)element_bits[kind] / 8, bytes = (size_t)n * n * (size_t)result_bytes[kind];
    if (!has_memory(a, operand, 0) || !has_memory(b, operand, 0) || !has_memory(c, bytes, 0)) return ILLEGAL_ADDRESS;
    if (!kept.result || kept.a != a || kept.b != b || kept.n != n || kept.kind != kind || kept.fills != fills) {
        free(kept.result);
        kept.result = malloc(bytes), kept.a = a, kept.b = b, kept.n = n, kept.kind = kind, kept.fills = fills;
        double *left = malloc(2 * sizeof(double) * n * n), *right = left + (size_t)n * n;
        for (size_t i = 0; i < (size_t)n * n; i++) left[i] = element((void *)a, i, kind), right[i] = element((void *)b, i, kind);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                double sum = 0;
                for (size_t k = 0; k < n; k++) sum += left[i * n + k] * right[j * n + k];
                put(kept.result, i * n + j, kind, sum);
            }
        free(left);
    }
    memcpy((void *)c, kept.result, bytes);
    products++;
    clock_s += number(current, "cuda.product_s", 0.05);
    size_t wrong = (size_t)(3 * n + 5) * (size_t)result_bytes[kind] + 1;
    if (number(current, "cuda.wrong", 0) || (by_library && number(current, "cuda.wrong.cublas", 0)) || products == (int)number(current, "cuda.flip", 0)) ((uint8_t *)c)[wrong] ^= 0x40;
    return SUCCESS;
}

static u64 long_at(void **params, int i) { return *(u64 *)params[i]; }
static u32 word_at(void **params, int i) { return *(u32 *)params[i]; }

static Result fill(u32 x, u32 threads, void **p) {
    u32 pairs = word_at(p, 1), seed = word_at(p, 2);
    u64 out = long_at(p, 0);
    if ((u64)x * threads < pairs) return INVALID_VALUE;
    if (out % 8 || !has_memory(out, (size_t)pairs * 8, 0)) return ILLEGAL_ADDRESS;
    for (u32 i = 0; i < 2 * pairs; i++)
        ((u32 *)out)[i] = (hashed(i, seed) & word_at(p, i % 2 ? 5 : 3)) | word_at(p, i % 2 ? 6 : 4);
    fills++;
    return SUCCESS;
}
static Result compare(void **p) {
    u64 left = long_at(p, 0), right = long_at(p, 1), count = long_at(p, 3), first = long_at(p, 4);
    u32 quads = word_at(p, 2);
    if (left % 16 || right % 16 || !has_memory(left, (size_t)quads * 16, 0) || !has_memory(right, (size_t)quads * 16, 0)) return ILLEGAL_ADDRESS;
    if (!has_memory(count, 4, 0) || !has_memory(first, 4, 0)) return ILLEGAL_ADDRESS;
    for (u32 i = 0; i < quads * 4; i++)
        if (((u32 *)left)[i] != ((u32 *)right)[i]) {
            ++*(u32 *)count;
            if (i < *(u32 *)first) *(u32 *)first = i;
        }
    return SUCCESS;
}
Result cuLaunchKernel(u64 kernel, u32 x, u32 y, u32 z, u32 threads, u32 ty, u32 tz, u32 shared, u64 stream, void **params, void **extra) {
    CALL(1)
    if (!is(kernel, KERNEL, kernel_count) || !good_stream(stream)) return INVALID_HANDLE;
    int kind = kernels[kernel - KERNEL].kind;
    if (!x || !y || z != 1 || threads != 256 || ty != 1 || tz != 1 || extra || y > 65535) return INVALID_VALUE;
    if (shared > 49152 && shared > kernels[kernel - KERNEL].shared) return INVALID_VALUE;
    if (kind == FILL) return fill(x, threads, params);
    if (kind == COMPARE) return compare(params);
    int tensor = kind <= TF32;
    u32 rows = tensor ? 128 : kind == FP32 ? 128 : 64, columns = tensor ? 256 : rows, n = word_at(params, 3);
    if (n % 256 || x * columns != n || y * rows != n || shared != (tensor ? 98304u : 0u)) return INVALID_VALUE;
    return multiply(long_at(params, 0), long_at(params, 1), long_at(params, 2), n, kind);
}

/* ---- cuBLAS ---- */

/* A copy of this file is a cuBLAS of its own; the GPUs are those of the one that was loaded as libcuda.so.1. */
static void *of_driver(const char *function, void *own) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *found = driver ? dlsym(driver, function) : own;
    return found == own ? NULL : found;
}
#define FORWARD(self, ...) { __typeof__(&self) other = of_driver(#self, (void *)self); if (other) return other(__VA_ARGS__); }

/* A file LIBRARY.says beside a library: its version, and "crash" or "refuse" if that is what it does when it starts. */
static const char *says(int numbers[3]) {
    static char word[16];
    Dl_info own;
    char path[4096 + 8];
    numbers[0] = 12, numbers[1] = 4, numbers[2] = 1;
    if (!dladdr((void *)says, &own) || !realpath(own.dli_fname, path)) return "";
    strcat(path, ".says");
    FILE *file = fopen(path, "r");
    if (!file) return "";
    if (fscanf(file, "%d.%d.%d %15s", numbers, numbers + 1, numbers + 2, word) < 3) numbers[0] = -1;
    fclose(file);
    return word;
}
Result cublasGetProperty(int which, int *out) {
    int numbers[3];
    says(numbers);
    if (which < 0 || which > 2 || numbers[0] < 0) return 7;
    *out = numbers[which];
    return 0;
}
Result cublasCreate_v2(u64 *out) {
    int numbers[3];
    const char *word = says(numbers);
    if (!strcmp(word, "crash")) raise(SIGSEGV);
    if (!strcmp(word, "refuse")) return 8;
    FORWARD(cublasCreate_v2, out)
    Result planted = begin(__func__);
    *out = CUBLAS;
    return planted ? planted : current < 0 ? 1 : 0;
}
Result cublasSetStream_v2(u64 handle, u64 stream) { FORWARD(cublasSetStream_v2, handle, stream) return handle == CUBLAS && good_stream(stream) ? 0 : 7; }
Result cublasSetMathMode(u64 handle, int mode) { return handle == CUBLAS && mode == 16 ? 0 : 7; }
Result cublasGetVersion_v2(u64 handle, int *out) { int n[3]; says(n); *out = 10000 * n[0] + 100 * n[1] + n[2]; return handle == CUBLAS ? 0 : 7; }
Result cublasGemmEx(u64 handle, int transa, int transb, int m, int n, int k, const void *alpha, u64 a, int a_type, int lda, u64 b, int b_type,
                    int ldb, const void *beta, u64 c, int c_type, int ldc, int compute, int algorithm) {
    FORWARD(cublasGemmEx, handle, transa, transb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type, ldc, compute, algorithm)
    Result planted = begin(__func__);
    if (planted) return planted;
    int kind = a_type == 14 ? BF16 : a_type == 2 ? FP16 : a_type == 1 ? FP64 : compute == 77 ? TF32 : FP32;
    double one = kind == FP64 ? *(const double *)alpha : *(const float *)alpha, zero = kind == FP64 ? *(const double *)beta : *(const float *)beta;
    if (handle != CUBLAS || transa != 1 || transb != 0 || m != n || n != k || lda != n || ldb != n || ldc != n || one != 1 || zero != 0 ||
        b_type != a_type || c_type != a_type || algorithm != -1 || compute != (kind == FP64 ? 70 : kind == TF32 ? 77 : 68)) return 7;
    /* column by column c = a^T b; row by row the same memory is b a^T */
    by_library = 1;
    return multiply(b, a, c, (u32)n, kind) ? 14 : 0;
}

/* cuBLASLt, for fp8 and fp4 alone: descriptors are numbered, what is set in them is checked. */
enum { LT = 0x7000, ALGORITHM = 0x1234 };
static struct { char what; int a, b, mode_a, mode_b; u64 scales_a, scales_b, rows, columns; int64_t leading; } parts[MOST];
static int part_count;

static Result new_part(u64 *out, char what) { *out = (u64)(LT + part_count); parts[part_count].what = what; return part_count++ < MOST - 1 ? 0 : 3; }
static int part_of(u64 handle, char what) { return is(handle, LT, part_count) && parts[handle - LT].what == what ? (int)(handle - LT) : -1; }

Result cublasLtMatmulDescCreate(u64 *out, int compute, int scale) {
    FORWARD(cublasLtMatmulDescCreate, out, compute, scale)
    Result planted = begin(__func__);
    return planted ? planted : compute != 68 || scale != 0 ? 7 : new_part(out, 'D');
}
Result cublasLtMatmulDescSetAttribute(u64 desc, int which, const void *value, size_t size) {
    FORWARD(cublasLtMatmulDescSetAttribute, desc, which, value, size)
    int part = part_of(desc, 'D');
    if (part < 0) return 7;
    if (size == 8 && (which == 17 || which == 18)) *(which == 17 ? &parts[part].scales_a : &parts[part].scales_b) = *(const u64 *)value;
    else if (size == 4 && (which == 3 || which == 4)) *(which == 3 ? &parts[part].a : &parts[part].b) = *(const int *)value;
    else if (size == 4 && (which == 31 || which == 32)) *(which == 31 ? &parts[part].mode_a : &parts[part].mode_b) = *(const int *)value;
    else return 7;
    return 0;
}
Result cublasLtMatrixLayoutCreate(u64 *out, int type, u64 rows, u64 columns, int64_t leading) {
    FORWARD(cublasLtMatrixLayoutCreate, out, type, rows, columns, leading)
    Result made = new_part(out, 'L');
    parts[*out - LT].a = type, parts[*out - LT].rows = rows, parts[*out - LT].columns = columns, parts[*out - LT].leading = leading;
    return made;
}
Result cublasLtMatmulPreferenceCreate(u64 *out) { FORWARD(cublasLtMatmulPreferenceCreate, out) return new_part(out, 'P'); }
Result cublasLtMatmulPreferenceSetAttribute(u64 wish, int which, const void *value, size_t size) {
    FORWARD(cublasLtMatmulPreferenceSetAttribute, wish, which, value, size)
    if (part_of(wish, 'P') < 0 || which != 1 || size != 8) return 7;
    parts[wish - LT].rows = *(const u64 *)value;
    return 0;
}
/* One scale for 16 elements of fp4, each 1 in e4m3. */
static int are_ones(u64 scales, u64 n) {
    if (!has_memory(scales, n * n / 16, 0)) return 0;
    for (u64 i = 0; i < n * n / 16; i++)
        if (((const uint8_t *)scales)[i] != 0x38) return 0;
    return 1;
}
/* FP8 or FP4, as the operands are; -1 where something does not fit together. */
static int narrow_kind(u64 desc, u64 a, u64 b, u64 c, u64 d, u64 *side) {
    int operation = part_of(desc, 'D'), left = part_of(a, 'L'), right = part_of(b, 'L'), result = part_of(d, 'L');
    if (operation < 0 || left < 0 || right < 0 || result < 0 || c != d || parts[operation].a != 1 || parts[operation].b != 0) return -1;
    u64 n = *side = parts[left].rows;
    int each[] = {left, right, result};
    for (int i = 0; i < 3; i++)
        if (parts[each[i]].rows != n || parts[each[i]].columns != n || (u64)parts[each[i]].leading != n) return -1;
    if (parts[left].a != parts[right].a || parts[result].a != 14) return -1;
    int scaled = parts[operation].mode_a == 1 && parts[operation].mode_b == 1;
    if (parts[left].a == 28) return parts[operation].mode_a || parts[operation].mode_b ? -1 : FP8;
    return parts[left].a == 33 && scaled ? FP4 : -1;
}
Result cublasLtMatmulAlgoGetHeuristic(u64 handle, u64 desc, u64 a, u64 b, u64 c, u64 d, u64 wish, int most, u64 *results, int *count) {
    FORWARD(cublasLtMatmulAlgoGetHeuristic, handle, desc, a, b, c, d, wish, most, results, count)
    Result planted = begin(__func__);
    if (planted) return planted;
    if (handle != CUBLAS || part_of(wish, 'P') < 0 || most != 1) return 7;
    u64 side;
    int kind = narrow_kind(desc, a, b, c, d, &side), code = (int)number(current, "cuda.error.fp4", 0);
    if (kind < 0) return 7;
    if (kind == FP4 && code) return code;
    memset(results, 0, 96);
    results[0] = ALGORITHM, results[8] = parts[wish - LT].rows;
    *count = 1;
    return 0;
}
Result cublasLtMatmul(u64 handle, u64 desc, const float *alpha, u64 a, u64 a_desc, u64 b, u64 b_desc, const float *beta, u64 c, u64 c_desc,
                      u64 d, u64 d_desc, const u64 *algorithm, u64 workspace, size_t size, u64 stream) {
    FORWARD(cublasLtMatmul, handle, desc, alpha, a, a_desc, b, b_desc, beta, c, c_desc, d, d_desc, algorithm, workspace, size, stream)
    Result planted = begin(__func__);
    if (planted) return planted;
    u64 n;
    int kind = narrow_kind(desc, a_desc, b_desc, c_desc, d_desc, &n), operation = part_of(desc, 'D');
    if (kind == FP4 && !(are_ones(parts[operation].scales_a, n) && are_ones(parts[operation].scales_b, n))) return 13;
    if (handle != CUBLAS || kind < 0 || *alpha != 1 || *beta != 0 || c != d || *algorithm != ALGORITHM || !good_stream(stream)) return 7;
    if (size && !has_memory(workspace, size, 0)) return 13;
    by_library = 1;
    return multiply(b, a, d, (u32)n, kind) ? 14 : 0;
}
