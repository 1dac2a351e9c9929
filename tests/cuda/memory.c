/* Kernels for the memory, as nodegate/node_side/load/memory_kernels.py has them; a part of copies.c. Of a GPU it reads
 *
 *   cuda.read = 3050, cuda.copy = 2950, cuda.triad = 2950
 *                                    GB/s that events count, all bytes counted that a kernel moves
 *   cuda.corrupt.copy = 7            a bit of the 7th word of what the kernel writes is wrong; triad alike
 *   cuda.skip.read = 1               the kernel reads one word less than it should
 *   cuda.stuck = 7                   a bit of the 7th word of a pattern is always 1
 *   cuda.alias = 512                 what is written to word 0 of a pattern goes to this one too
 *
 * Written from the description of the kernels, not from their PTX: one thread does what all do. */

static char names[MOST][32];

Result cuModuleGetFunction(u64 *out, u64 module, const char *name) {
    CALL(1)
    Result answer = base_cuModuleGetFunction(out, module, name);
    if (!answer) snprintf(names[*out - KERNEL], sizeof names[0], "%s", name);
    return answer;
}

static u32 pattern(const char *rule, u64 number, u32 key, u32 other) {
    u32 low = (u32)number, high = (u32)(number >> 32);
    if (!strcmp(rule, "walk")) return (1u << ((low + key) % 32)) ^ other;
    if (!strcmp(rule, "address")) return (number % 2 ? (u32)(number >> 30) : low << 2) ^ other;
    u32 made = hashed(low, key + high * 0x7FEB352Du);
    if (!strcmp(rule, "triad")) return made + 3 * hashed(low, other + high * 0x7FEB352Du);
    return made ^ other;
}

static Result write_pattern(const char *rule, void **p) {
    u32 *data = (u32 *)long_at(p, 0), quads = word_at(p, 2);
    u64 first = long_at(p, 1);
    if ((u64)data % 16 || !has_memory((u64)data, (size_t)quads * 16, 0)) return ILLEGAL_ADDRESS;
    for (size_t i = 0; i < (size_t)quads * 4; i++) data[i] = pattern(rule, first + i, word_at(p, 3), word_at(p, 4));
    size_t stuck = (size_t)number(current, "cuda.stuck", 0), alias = (size_t)number(current, "cuda.alias", 0);
    if (stuck && stuck < (size_t)quads * 4) data[stuck] |= 0x40;
    if (alias && alias < (size_t)quads * 4) data[alias] = data[0];
    return SUCCESS;
}
static Result check_pattern(const char *rule, void **p) {
    u32 *data = (u32 *)long_at(p, 0), quads = word_at(p, 2), *found = (u32 *)long_at(p, 5), *sums = (u32 *)long_at(p, 6);
    u64 first = long_at(p, 1);
    if ((u64)data % 16 || (u64)found % 16 || !has_memory((u64)data, (size_t)quads * 16, 0)) return ILLEGAL_ADDRESS;
    if (!has_memory((u64)found, 272, 0) || !has_memory((u64)sums, 1024, 0)) return ILLEGAL_ADDRESS;
    sums[0] = 0;
    for (size_t i = 0; i < (size_t)quads * 4; i++) {
        u32 right = pattern(rule, first + i, word_at(p, 3), word_at(p, 4));
        sums[0] += right;
        if (data[i] == right) continue;
        found[0]++, found[1] |= data[i] ^ right;
        if (found[2] < 16) {
            u32 *entry = found + 4 + 4 * found[2];
            entry[0] = (u32)(first + i), entry[1] = (u32)((first + i) >> 32), entry[2] = right, entry[3] = data[i];
        }
        found[2]++;
    }
    return SUCCESS;
}
static Result moved(const char *kind, u32 x, void **p, int operands) {
    u64 from = long_at(p, 0), to = long_at(p, operands > 1 ? operands - 1 : 1);
    u32 tiles = word_at(p, operands > 1 ? operands : 2);
    size_t size = (size_t)tiles * 16384;
    if (x > tiles || !has_memory(from, size, 0) || !has_memory(to, operands > 1 ? size : (size_t)x * 1024, 0)) return ILLEGAL_ADDRESS;
    u32 *in = (u32 *)from, *out = (u32 *)to;
    if (operands == 1) {
        for (size_t i = 0; i < size / 4; i++) out[i % ((size_t)x * 256)] += in[i];
        if (number(current, "cuda.skip.read", 0)) out[0] -= in[5];
    } else if (operands == 2) {
        memcpy(out, in, size);
    } else {
        u32 *more = (u32 *)long_at(p, 1);
        if (!has_memory((u64)more, size, 0)) return ILLEGAL_ADDRESS;
        for (size_t i = 0; i < size / 4; i++) out[i] = in[i] + 3 * more[i];
    }
    return took(SUCCESS, kind, operands == 1 ? 3050 : 2950, -1, operands > 1 ? to : 0, (size_t)operands * size);
}

Result cuLaunchKernel(u64 kernel, u32 x, u32 y, u32 z, u32 threads, u32 ty, u32 tz, u32 shared, u64 stream, void **params, void **extra) {
    CALL(1)
    if (!is(kernel, KERNEL, kernel_count) || !good_stream(stream)) return INVALID_HANDLE;
    const char *name = names[kernel - KERNEL] + strlen("nodegate_");
    int own = !strncmp(name, "write_", 6) || !strncmp(name, "check_", 6) || !strcmp(name, "read") || !strcmp(name, "copy") || !strcmp(name, "triad");
    if (!own) return base_cuLaunchKernel(kernel, x, y, z, threads, ty, tz, shared, stream, params, extra);
    if (!x || y != 1 || z != 1 || threads != 256 || ty != 1 || tz != 1 || extra || shared) return INVALID_VALUE;
    if (!strncmp(name, "write_", 6)) return write_pattern(name + 6, params);
    if (!strncmp(name, "check_", 6)) return check_pattern(name + 6, params);
    return moved(name, x, params, !strcmp(name, "read") ? 1 : !strcmp(name, "copy") ? 2 : 3);
}
