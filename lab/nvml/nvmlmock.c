/* A stand-in for libnvidia-ml.so.1: serves a scenario file to pynvml and to NVIDIA's own nvidia-smi, without a GPU.
 *
 * The scenario is a text file of lines `key = value` (# starts a comment line), read again whenever it changes, so that a
 * fault can appear in mid-run:
 *
 *   sys.count = 8                      how many GPUs; sys.driver, sys.nvml, sys.cuda: versions
 *   gpu.NAME = V                       a value of every GPU; the names stand at the calls below
 *   gpu.3.NAME = V                     the same for GPU 3 alone; wins over gpu.NAME
 *   gpu.3.lost = 1                     every call on GPU 3 answers GPU_IS_LOST (15); its handle is still given out
 *   gpu.3.error.FUNCTION = 999         one call on GPU 3 answers this number; gpu.error.FUNCTION: on every GPU
 *   sys.error.FUNCTION = 9             the same for a call that takes no GPU, or for the handle of any GPU
 *   gpu.3.sleep.FUNCTION = 60          the call takes so many seconds first; sys.sleep.FUNCTION likewise
 *   gpu.3.crash.FUNCTION = 1           the call dies of SIGSEGV
 *
 * FUNCTION is the name without its version: nvmlDeviceGetHandleByIndex, not ..._v2. A value that the scenario lacks is
 * answered with NOT_SUPPORTED (3), as are all functions that are not written here (weak stubs, generated when this is
 * compiled). Structures and numbers follow NVIDIA's nvml.h. */
#define _GNU_SOURCE
#include "scenario.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       GPU_IS_LOST = 15, VERSION_MISMATCH = 25 };

typedef int Result;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { int index; } Device;

static Device devices[MOST_GPUS];
static int users; /* nvmlInit calls without their nvmlShutdown */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int index_of(const void *device) {
    const Device *known = device;
    return known >= devices && known < devices + MOST_GPUS ? (int)(known - devices) : -1;
}

/* `function` without a version at its end. */
static void base_name(const char *function, char base[static 100]) {
    snprintf(base, 100, "%s", function);
    size_t length = strlen(base);
    if (length > 3 && base[length - 3] == '_' && base[length - 2] == 'v') base[length - 3] = '\0';
}

static const char *fault(const char *kind, const char *function, int gpu) {
    char base[100], name[120];
    base_name(function, base);
    snprintf(name, sizeof name, "%s.%s", kind, base);
    return gpu >= 0 ? gpu_value(gpu, name) : system_value(name);
}

static void sleep_seconds(double seconds) {
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&left, NULL);
}

/* What every call begins with: a fresh scenario, then the faults that were asked for. Holds the lock when it returns. */
static Result begin(const char *function, int gpu) {
    pthread_mutex_lock(&lock);
    scenario_refresh();
    const char *found = fault("sleep", function, gpu);
    if (found) {
        double seconds = atof(found);
        pthread_mutex_unlock(&lock);
        sleep_seconds(seconds);
        pthread_mutex_lock(&lock);
    }
    if (fault("crash", function, gpu)) raise(SIGSEGV);
    if ((found = fault("error", function, gpu))) return atoi(found);
    if (gpu >= 0 && (found = gpu_value(gpu, "lost")) && atoi(found)) return GPU_IS_LOST;
    return SUCCESS;
}

static Result end(Result result) {
    pthread_mutex_unlock(&lock);
    return result;
}

/* The heads of calls about the system and about one GPU (`gpu` is its index from there on). */
#define SYSTEM_CALL                                          \
    if (!users) return UNINITIALIZED;                        \
    {                                                        \
        Result at_start_ = begin(__func__, -1);              \
        if (at_start_ != SUCCESS) return end(at_start_);     \
    }
#define GPU_CALL(device)                                     \
    int gpu = index_of(device);                              \
    if (gpu < 0) return INVALID_ARGUMENT;                    \
    if (!users) return UNINITIALIZED;                        \
    {                                                        \
        Result at_start_ = begin(__func__, gpu);             \
        if (at_start_ != SUCCESS) return end(at_start_);     \
    }

static Result give_text(const char *value, char *out, u32 room) {
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) >= room) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static Result give_number(const char *value, u32 *out) {
    if (!value) return NOT_SUPPORTED;
    *out = (u32)strtoul(value, NULL, 0);
    return SUCCESS;
}

static u64 number_or(int gpu, const char *name, u64 otherwise) {
    const char *value = gpu_value(gpu, name);
    return value ? strtoull(value, NULL, 0) : otherwise;
}

/* Calls of one shape each: a text, a number, a long number, a number chosen by an argument. */
#define TEXT(function, name)                                                              \
    Result function(void *device, char *out, u32 room) {                                  \
        GPU_CALL(device)                                                                  \
        return end(give_text(gpu_value(gpu, name), out, room));                           \
    }
#define NUMBER(function, name)                                                            \
    Result function(void *device, u32 *out) {                                             \
        GPU_CALL(device)                                                                  \
        return end(give_number(gpu_value(gpu, name), out));                               \
    }
#define LONG_NUMBER(function, name)                                                       \
    Result function(void *device, u64 *out) {                                             \
        GPU_CALL(device)                                                                  \
        if (!gpu_value(gpu, name)) return end(NOT_SUPPORTED);                             \
        *out = number_or(gpu, name, 0);                                                   \
        return end(SUCCESS);                                                              \
    }
#define CHOSEN(function, name_format)                                                     \
    Result function(void *device, u32 which, u32 *out) {                                  \
        GPU_CALL(device)                                                                  \
        char name[60];                                                                    \
        snprintf(name, sizeof name, name_format, which);                                  \
        return end(give_number(gpu_value(gpu, name), out));                               \
    }

/* ---- start and system ---- */

static Result start(void) {
    Result result = begin("nvmlInit", -1);
    if (result == SUCCESS) users++;
    return end(result);
}
Result nvmlInit(void) { return start(); }
Result nvmlInit_v2(void) { return start(); }
Result nvmlInitWithFlags(u32 flags) { (void)flags; return start(); }
Result nvmlShutdown(void) { if (!users) return UNINITIALIZED; users--; return SUCCESS; }

const char *nvmlErrorString(Result result) {
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
        "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
        "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM",
        "GPU is lost", "GPU requires reset", "The operating system has blocked the request",
        "Driver/library version mismatch", "In use by another client", "Insufficient Memory", "No data",
        "Operation not supported on current vGPU host", "Insufficient Resources", "Frequency not supported",
        "Argument version mismatch", "Deprecated", "Not Ready", "GPU not found", "Invalid state"};
    int known = (int)(sizeof texts / sizeof *texts);
    return result >= 0 && result < known ? texts[result] : "Unknown Error";
}

Result nvmlSystemGetDriverVersion(char *out, u32 room) {
    SYSTEM_CALL
    return end(give_text(system_value("driver"), out, room));
}
Result nvmlSystemGetNVMLVersion(char *out, u32 room) {
    SYSTEM_CALL
    return end(give_text(system_value("nvml"), out, room));
}
Result nvmlSystemGetCudaDriverVersion_v2(u32 *out) {
    SYSTEM_CALL
    return end(give_number(system_value("cuda"), out));
}
/* environment, feature, developers' tools: sys.confidential = 1 is the second */
Result nvmlSystemGetConfComputeState(u32 *out) {
    SYSTEM_CALL
    out[0] = 0, out[2] = 0;
    return end(give_number(system_value("confidential"), out + 1));
}
Result nvmlSystemGetCudaDriverVersion(u32 *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

/* sys.process.4242 = python train.py */
Result nvmlSystemGetProcessName(u32 pid, char *out, u32 room) {
    SYSTEM_CALL
    char name[40];
    snprintf(name, sizeof name, "process.%u", pid);
    const char *value = system_value(name);
    return end(value ? give_text(value, out, room) : NOT_FOUND);
}

/* ---- which GPUs there are ---- */

Result nvmlDeviceGetCount_v2(u32 *out) {
    SYSTEM_CALL
    *out = (u32)gpu_count();
    return end(SUCCESS);
}
Result nvmlDeviceGetCount(u32 *out) { return nvmlDeviceGetCount_v2(out); }

Result nvmlDeviceGetHandleByIndex_v2(u32 index, void **out) {
    SYSTEM_CALL
    if ((int)index >= gpu_count()) return end(INVALID_ARGUMENT);
    const char *refused = own_gpu_value((int)index, "error.nvmlDeviceGetHandleByIndex");
    if (refused) return end(atoi(refused));
    *out = &devices[index];
    return end(SUCCESS);
}
Result nvmlDeviceGetHandleByIndex(u32 index, void **out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }

static Result handle_by(const char *name, const char *wanted, void **out) {
    for (int gpu = 0; gpu < gpu_count(); gpu++) {
        const char *value = gpu_value(gpu, name);
        if (!value || strcasecmp(value, wanted)) continue;
        const char *refused = own_gpu_value(gpu, "error.nvmlDeviceGetHandleByIndex");
        if (refused) return atoi(refused);
        *out = &devices[gpu];
        return SUCCESS;
    }
    return NOT_FOUND;
}
Result nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
    SYSTEM_CALL
    return end(handle_by("uuid", uuid, out));
}
Result nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **out) {
    SYSTEM_CALL
    return end(handle_by("bus_id", bus_id, out));
}
Result nvmlDeviceGetHandleByPciBusId(const char *bus_id, void **out) {
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, out);
}
Result nvmlDeviceGetIndex(void *device, u32 *out) {
    GPU_CALL(device)
    *out = (u32)gpu;
    return end(SUCCESS);
}
Result nvmlDeviceGetMinorNumber(void *device, u32 *out) {
    GPU_CALL(device)
    *out = (u32)number_or(gpu, "minor", (u64)gpu);
    return end(SUCCESS);
}

/* ---- what a GPU is ---- */

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetBoardPartNumber, "part_number")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom_image")
NUMBER(nvmlDeviceGetModuleId, "module_id")
NUMBER(nvmlDeviceGetNumaNodeId, "numa_node")
NUMBER(nvmlDeviceGetBrand, "brand")
NUMBER(nvmlDeviceGetArchitecture, "architecture")
NUMBER(nvmlDeviceGetBoardId, "board_id")
NUMBER(nvmlDeviceGetDisplayMode, "display_mode")
NUMBER(nvmlDeviceGetDisplayActive, "display_active")

typedef struct { char legacy[16]; u32 domain, bus, device, device_id, subsystem_id; char bus_id[32]; } PciInfo;

Result nvmlDeviceGetPciInfo_v3(void *device, PciInfo *out) {
    GPU_CALL(device)
    const char *bus_id = gpu_value(gpu, "bus_id");
    if (!bus_id) return end(NOT_SUPPORTED);
    memset(out, 0, sizeof *out);
    sscanf(bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", bus_id);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff, out->device & 0x1f);
    out->device_id = (u32)number_or(gpu, "pci_device_id", 0);
    out->subsystem_id = (u32)number_or(gpu, "pci_subsystem_id", 0);
    return end(SUCCESS);
}
Result nvmlDeviceGetPciInfo_v2(void *device, PciInfo *out) { return nvmlDeviceGetPciInfo_v3(device, out); }
Result nvmlDeviceGetPciInfo(void *device, PciInfo *out) { return nvmlDeviceGetPciInfo_v3(device, out); }

typedef struct {
    u32 version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
    char bus_id[32];
} PciInfoExt;

Result nvmlDeviceGetPciInfoExt(void *device, PciInfoExt *out) {
    PciInfo info;
    Result result = nvmlDeviceGetPciInfo_v3(device, &info);
    if (result != SUCCESS) return result;
    *out = (PciInfoExt){out->version, info.domain, info.bus, info.device, info.device_id, info.subsystem_id, 3, 2, ""};
    memcpy(out->bus_id, info.bus_id, sizeof out->bus_id);
    return SUCCESS;
}

Result nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    GPU_CALL(device)
    const char *value = gpu_value(gpu, "compute_capability");
    return end(value && sscanf(value, "%d.%d", major, minor) == 2 ? SUCCESS : NOT_SUPPORTED);
}

/* inforom_valid = 0: its checksum is wrong (14) */
Result nvmlDeviceValidateInforom(void *device) {
    GPU_CALL(device)
    return end(number_or(gpu, "inforom_valid", 1) ? SUCCESS : 14);
}

/* ---- PCI Express, clocks, power, temperature ---- */

NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "link_width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "link_width_max")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "link_gen")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "link_gen_max")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "link_gen_gpu_max")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie_replays")

/* clock.0 graphics, clock.1 SM, clock.2 memory, clock.3 video: MHz */
CHOSEN(nvmlDeviceGetClockInfo, "clock.%u")
CHOSEN(nvmlDeviceGetMaxClockInfo, "clock_max.%u")
CHOSEN(nvmlDeviceGetApplicationsClock, "clock_app.%u")
CHOSEN(nvmlDeviceGetDefaultApplicationsClock, "clock_app_default.%u")
CHOSEN(nvmlDeviceGetMaxCustomerBoostClock, "clock_max.%u")
LONG_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, "event_reasons")
LONG_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, "event_reasons")
LONG_NUMBER(nvmlDeviceGetSupportedClocksEventReasons, "event_reasons_supported")
LONG_NUMBER(nvmlDeviceGetSupportedClocksThrottleReasons, "event_reasons_supported")

typedef struct { u64 reference_ns, violation_ns; } ViolationTime;

/* violation.POLICY = nanoseconds */
Result nvmlDeviceGetViolationStatus(void *device, u32 policy, ViolationTime *out) {
    GPU_CALL(device)
    char name[40];
    snprintf(name, sizeof name, "violation.%u", policy);
    if (!gpu_value(gpu, name)) return end(NOT_SUPPORTED);
    *out = (ViolationTime){0, number_or(gpu, name, 0)};
    return end(SUCCESS);
}

NUMBER(nvmlDeviceGetPowerUsage, "power")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power_limit")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit_default")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_enforced")
NUMBER(nvmlDeviceGetPowerManagementMode, "power_mode")
LONG_NUMBER(nvmlDeviceGetTotalEnergyConsumption, "energy")

Result nvmlDeviceGetPowerManagementLimitConstraints(void *device, u32 *least, u32 *most) {
    GPU_CALL(device)
    Result result = give_number(gpu_value(gpu, "power_limit_min"), least);
    return end(result ? result : give_number(gpu_value(gpu, "power_limit_max"), most));
}

CHOSEN(nvmlDeviceGetTemperature, "temperature.%u")
CHOSEN(nvmlDeviceGetTemperatureThreshold, "temperature_threshold.%u")

typedef struct { u32 version; int degrees; } MarginTemperature;

Result nvmlDeviceGetMarginTemperature(void *device, MarginTemperature *out) {
    GPU_CALL(device)
    const char *value = gpu_value(gpu, "temperature_margin");
    if (!value) return end(NOT_SUPPORTED);
    out->degrees = atoi(value);
    return end(SUCCESS);
}

/* ---- memory and its errors ---- */

typedef struct { u64 total, free, used; } Memory;
typedef struct { u32 version; u64 total, reserved, free, used; } MemoryV2;

/* memory_total, memory_used, memory_reserved: bytes. The first form counts what is reserved as used. */
Result nvmlDeviceGetMemoryInfo(void *device, Memory *out) {
    GPU_CALL(device)
    out->total = number_or(gpu, "memory_total", 0);
    out->used = number_or(gpu, "memory_used", 0) + number_or(gpu, "memory_reserved", 0);
    out->free = out->total - out->used;
    return end(SUCCESS);
}
Result nvmlDeviceGetMemoryInfo_v2(void *device, MemoryV2 *out) {
    GPU_CALL(device)
    if (out->version != (0x2000000 | sizeof *out)) return end(VERSION_MISMATCH);
    out->total = number_or(gpu, "memory_total", 0);
    out->used = number_or(gpu, "memory_used", 0);
    out->reserved = number_or(gpu, "memory_reserved", 0);
    out->free = out->total - out->used - out->reserved;
    return end(SUCCESS);
}
Result nvmlDeviceGetBAR1MemoryInfo(void *device, Memory *out) {
    GPU_CALL(device)
    u64 total = number_or(gpu, "bar1_total", 0);
    *out = (Memory){total, total, 0};
    return end(total ? SUCCESS : NOT_SUPPORTED);
}

/* A setting that is on now, and one for after the next reset. */
static Result mode(int gpu, const char *now, const char *next, u32 *current, u32 *pending) {
    Result result = give_number(gpu_value(gpu, now), current);
    if (result == SUCCESS) *pending = (u32)number_or(gpu, next, *current);
    return result;
}
Result nvmlDeviceGetEccMode(void *device, u32 *current, u32 *pending) {
    GPU_CALL(device)
    return end(mode(gpu, "ecc", "ecc_pending", current, pending));
}
Result nvmlDeviceGetMigMode(void *device, u32 *current, u32 *pending) {
    GPU_CALL(device)
    return end(mode(gpu, "mig", "mig_pending", current, pending));
}

/* ecc.corrected.volatile, ecc.uncorrected.aggregate, ...: counts, 0 where not named while ECC is on */
static void ecc_name(char name[static 60], u32 uncorrected, u32 aggregate) {
    snprintf(name, 60, "ecc.%s.%s", uncorrected ? "uncorrected" : "corrected", aggregate ? "aggregate" : "volatile");
}
Result nvmlDeviceGetTotalEccErrors(void *device, u32 uncorrected, u32 aggregate, u64 *out) {
    GPU_CALL(device)
    if (!number_or(gpu, "ecc", 0)) return end(NOT_SUPPORTED);
    char name[60];
    ecc_name(name, uncorrected, aggregate);
    *out = number_or(gpu, name, 0);
    return end(SUCCESS);
}
/* ecc.uncorrected.aggregate.2: in DRAM; .7: in SRAM */
Result nvmlDeviceGetMemoryErrorCounter(void *device, u32 uncorrected, u32 aggregate, u32 location, u64 *out) {
    GPU_CALL(device)
    if (!number_or(gpu, "ecc", 0)) return end(NOT_SUPPORTED);
    char total[60], name[80];
    ecc_name(total, uncorrected, aggregate);
    snprintf(name, sizeof name, "%s.%u", total, location);
    *out = number_or(gpu, name, 0);
    return end(SUCCESS);
}

typedef struct { u32 version; u64 counts[11]; u32 threshold_exceeded; } SramStatus;

Result nvmlDeviceGetSramEccErrorStatus(void *device, SramStatus *out) {
    GPU_CALL(device)
    if (!gpu_value(gpu, "sram_threshold_exceeded")) return end(NOT_SUPPORTED);
    if (out->version != (0x1000000 | sizeof *out)) return end(VERSION_MISMATCH);
    memset(out->counts, 0, sizeof out->counts);
    out->threshold_exceeded = (u32)number_or(gpu, "sram_threshold_exceeded", 0);
    return end(SUCCESS);
}

/* remap.correctable, .uncorrectable, .pending, .failure; remap.bank.max ... .none: how many banks have that many spares */
Result nvmlDeviceGetRemappedRows(void *device, u32 *correctable, u32 *uncorrectable, u32 *pending, u32 *failure) {
    GPU_CALL(device)
    if (!gpu_value(gpu, "remap.bank.max")) return end(NOT_SUPPORTED);
    *correctable = (u32)number_or(gpu, "remap.correctable", 0);
    *uncorrectable = (u32)number_or(gpu, "remap.uncorrectable", 0);
    *pending = (u32)number_or(gpu, "remap.pending", 0);
    *failure = (u32)number_or(gpu, "remap.failure", 0);
    return end(SUCCESS);
}
Result nvmlDeviceGetRowRemapperHistogram(void *device, u32 banks[5]) {
    GPU_CALL(device)
    static const char *const names[] = {"remap.bank.max", "remap.bank.high", "remap.bank.partial", "remap.bank.low", "remap.bank.none"};
    if (!gpu_value(gpu, names[0])) return end(NOT_SUPPORTED);
    for (int i = 0; i < 5; i++) banks[i] = (u32)number_or(gpu, names[i], 0);
    return end(SUCCESS);
}

/* retired.0 (single-bit errors), retired.1 (a double-bit error) = how many pages */
Result nvmlDeviceGetRetiredPages(void *device, u32 cause, u32 *count, u64 *pages) {
    GPU_CALL(device)
    char name[40];
    snprintf(name, sizeof name, "retired.%u", cause);
    if (!gpu_value(gpu, name)) return end(NOT_SUPPORTED);
    u32 room = *count;
    *count = (u32)number_or(gpu, name, 0);
    if (*count > room) return end(INSUFFICIENT_SIZE);
    for (u32 i = 0; pages && i < *count; i++) pages[i] = 0x1000ULL * (i + 1);
    return end(SUCCESS);
}
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending")

/* ---- firmware, fabric, NVLink ---- */

Result nvmlDeviceGetGspFirmwareVersion(void *device, char *out) {
    GPU_CALL(device)
    return end(give_text(gpu_value(gpu, "gsp_version"), out, 64));
}
Result nvmlDeviceGetGspFirmwareMode(void *device, u32 *enabled, u32 *by_default) {
    GPU_CALL(device)
    return end(mode(gpu, "gsp_enabled", "gsp_default", enabled, by_default));
}

typedef struct { unsigned char cluster[16]; u32 status, clique; unsigned char state; } Fabric;
typedef struct {
    u32 version;
    unsigned char cluster[16];
    u32 status, clique;
    unsigned char state;
    u32 health_mask;
    unsigned char health_summary; /* from version 3 on */
} FabricV;
enum { FABRIC_V2 = 0x2000024, FABRIC_V3 = 0x3000028 };

Result nvmlDeviceGetGpuFabricInfo(void *device, Fabric *out) {
    GPU_CALL(device)
    if (!gpu_value(gpu, "fabric_state")) return end(NOT_SUPPORTED);
    memset(out, 0, sizeof *out);
    out->state = (unsigned char)number_or(gpu, "fabric_state", 0);
    out->status = (u32)number_or(gpu, "fabric_status", 0);
    out->clique = (u32)number_or(gpu, "fabric_clique", 0);
    return end(SUCCESS);
}
/* fabric_newest = 2: a driver that does not know the third form yet */
Result nvmlDeviceGetGpuFabricInfoV(void *device, FabricV *out) {
    GPU_CALL(device)
    int knows_v3 = number_or(gpu, "fabric_newest", 3) >= 3;
    if (out->version != FABRIC_V2 && !(knows_v3 && out->version == FABRIC_V3)) return end(VERSION_MISMATCH);
    if (!gpu_value(gpu, "fabric_state")) return end(NOT_SUPPORTED);
    memset(out->cluster, (int)number_or(gpu, "fabric_cluster_byte", 0), sizeof out->cluster);
    out->state = (unsigned char)number_or(gpu, "fabric_state", 0);
    out->status = (u32)number_or(gpu, "fabric_status", 0);
    out->clique = (u32)number_or(gpu, "fabric_clique", 0);
    out->health_mask = (u32)number_or(gpu, "fabric_health_mask", 0);
    if (out->version == FABRIC_V3) out->health_summary = (unsigned char)number_or(gpu, "fabric_health_summary", 0);
    return end(SUCCESS);
}

/* nvlinks = how many; nvlink.5 = 0: link 5 is down */
static Result link_known(int gpu, u32 link) {
    u64 count = number_or(gpu, "nvlinks", 0);
    if (!count) return NOT_SUPPORTED;
    return link < count ? SUCCESS : INVALID_ARGUMENT;
}
Result nvmlDeviceGetNvLinkState(void *device, u32 link, u32 *out) {
    GPU_CALL(device)
    char name[40];
    snprintf(name, sizeof name, "nvlink.%u", link);
    *out = (u32)number_or(gpu, name, 1);
    return end(link_known(gpu, link));
}
Result nvmlDeviceGetNvLinkVersion(void *device, u32 link, u32 *out) {
    GPU_CALL(device)
    *out = (u32)number_or(gpu, "nvlink_version", 0);
    return end(link_known(gpu, link));
}
Result nvmlDeviceGetNvLinkRemoteDeviceType(void *device, u32 link, u32 *out) {
    GPU_CALL(device)
    *out = (u32)number_or(gpu, "nvlink_remote_type", 0);
    return end(link_known(gpu, link));
}
/* nvlink.5.error.0: replays of link 5; .1: recoveries; .2: CRC errors */
Result nvmlDeviceGetNvLinkErrorCounter(void *device, u32 link, u32 counter, u64 *out) {
    GPU_CALL(device)
    char name[60];
    snprintf(name, sizeof name, "nvlink.%u.error.%u", link, counter);
    *out = number_or(gpu, name, 0);
    return end(link_known(gpu, link));
}

typedef struct {
    u32 id, scope;
    long long timestamp, latency;
    u32 type;
    Result result;
    union { double d; u32 u; u64 ull; } value;
} FieldValue;
enum { TYPE_LONG_LONG = 3 };

/* field.82 = 45; field.161.5 = 7: with scope (the NVLink) 5. A value "error N" makes this field answer N. */
Result nvmlDeviceGetFieldValues(void *device, int count, FieldValue *fields) {
    GPU_CALL(device)
    for (FieldValue *field = fields; field < fields + count; field++) {
        char name[60];
        snprintf(name, sizeof name, "field.%u.%u", field->id, field->scope);
        const char *value = gpu_value(gpu, name);
        snprintf(name, sizeof name, "field.%u", field->id);
        if (!value) value = gpu_value(gpu, name);
        int refused = value ? !strncmp(value, "error ", 6) : 1;
        field->result = refused ? (value ? atoi(value + 6) : NOT_SUPPORTED) : SUCCESS;
        field->type = TYPE_LONG_LONG;
        field->value.ull = refused ? 0xdeadbeef : strtoull(value, NULL, 0); /* what lies there on an error means nothing */
        field->timestamp = (long long)time(NULL) * 1000000;
    }
    return end(SUCCESS);
}

/* ---- modes, load, processes ---- */

NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetVirtualizationMode, "virtualization")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetPerformanceState, "performance_state")
NUMBER(nvmlDeviceGetPowerState, "performance_state")

/* p2p is the status of all GPUs and kinds of access; p2p.OTHER.KIND that of one */
Result nvmlDeviceGetP2PStatus(void *device, void *other, u32 kind, u32 *out) {
    GPU_CALL(device)
    char name[60];
    snprintf(name, sizeof name, "p2p.%d.%u", index_of(other), kind);
    const char *own = gpu_value(gpu, name);
    return end(give_number(own ? own : gpu_value(gpu, "p2p"), out));
}

typedef struct { u32 gpu, memory; } Utilization;

Result nvmlDeviceGetUtilizationRates(void *device, Utilization *out) {
    GPU_CALL(device)
    *out = (Utilization){0, 0};
    return end(give_number(gpu_value(gpu, "utilization"), &out->gpu));
}

typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } Process;

/* processes.compute = PID:BYTES PID:BYTES ...; bytes "-": the driver does not say. With processes.own = 1 also those
 * that have a context by the stand-in for CUDA (tests/cuda): it leaves a file GPU.PID in the folder SCENARIO.users. */
static u32 with_context(int gpu, Process *out, u32 room) {
    char folder[4096];
    const char *scenario = getenv("NVML_MOCK_SCENARIO");
    snprintf(folder, sizeof folder, "%s.users", scenario ? scenario : "/etc/nvml-mock.conf");
    DIR *listed = opendir(folder);
    u32 found = 0;
    for (struct dirent *each; listed && (each = readdir(listed));) {
        int its_gpu, pid;
        if (sscanf(each->d_name, "%d.%d", &its_gpu, &pid) != 2 || its_gpu != gpu || kill(pid, 0)) continue;
        if (out && found < room) out[found] = (Process){(u32)pid, ~0ULL, ~0u, ~0u};
        found++;
    }
    if (listed) closedir(listed);
    return found;
}
static Result list_processes(int gpu, const char *name, u32 *count, Process *out) {
    const char *rest = gpu_value(gpu, name);
    u32 room = *count, found = 0;
    if (!strcmp(name, "processes.compute") && gpu_value(gpu, "processes.own")) found = with_context(gpu, out, room);
    for (char *after; rest && *rest; found++) {
        u32 pid = (u32)strtoul(rest, &after, 10);
        if (after == rest) break;
        int known = after[0] == ':' && after[1] != '-';
        u64 memory = known ? strtoull(after + 1, &after, 0) : ~0ULL;
        if (out && found < room) out[found] = (Process){pid, memory, ~0u, ~0u};
        rest = after + strcspn(after, " ");
        rest += strspn(rest, " ");
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
#define PROCESSES(function, name)                                       \
    Result function(void *device, u32 *count, Process *out) {           \
        GPU_CALL(device)                                                \
        return end(list_processes(gpu, name, count, out));              \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, "processes.compute")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "processes.compute")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "processes.compute")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "processes.graphics")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "processes.graphics")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "processes.graphics")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "processes.mps")

/* ---- for nvidia-smi ----
 * It asks for a private table of functions before anything else and calls through it. The first word is the table's size
 * in bytes. For its public views it is enough that all answer success, but for: 81, a device by its index; 213 to 215,
 * process lists (left alone, it reads thousands of rows from its stack); 230, the PCIe generation. */

/* It makes a set of events before it looks at a GPU, and gives up when it cannot. None ever comes. */
Result nvmlEventSetCreate(void **out) {
    static char set;
    *out = &set;
    return SUCCESS;
}
Result nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
Result nvmlDeviceRegisterEvents(void *device, u64 types, void *set) { (void)device, (void)types, (void)set; return SUCCESS; }

static Result answer_success(void) { return SUCCESS; }
static Result no_processes(void *device, u32 *count) {
    if (index_of(device) >= 0 && count) *count = 0;
    return SUCCESS;
}

Result nvmlInternalGetExportTable(const void **out, const void *identity) {
    (void)identity;
    enum { SLOTS = 512 };
    static void *table[SLOTS];
    table[0] = (void *)sizeof table;
    for (int slot = 1; slot < SLOTS; slot++) table[slot] = (void *)answer_success;
    table[81] = (void *)nvmlDeviceGetHandleByIndex_v2;
    table[213] = table[214] = table[215] = (void *)no_processes;
    table[230] = (void *)nvmlDeviceGetMaxPcieLinkGeneration;
    *out = table;
    return SUCCESS;
}
