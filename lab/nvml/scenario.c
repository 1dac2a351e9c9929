/* The scenario file as a list of keys and values; the last line for a key wins. */
#define _GNU_SOURCE
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct { char *key, *value; } *entries;
static int entry_count, entry_room;
static struct timespec read_at_mtime;
static off_t read_at_size;

static char *trimmed(char *text) {
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1])) text[--length] = '\0';
    return text;
}

static void forget_all(void) {
    for (int i = 0; i < entry_count; i++) {
        free(entries[i].key);
        free(entries[i].value);
    }
    entry_count = 0;
}

static void remember(const char *key, const char *value) {
    if (entry_count == entry_room) {
        entry_room = entry_room ? 2 * entry_room : 256;
        entries = realloc(entries, (size_t)entry_room * sizeof *entries);
        if (!entries) abort();
    }
    entries[entry_count].key = strdup(key);
    entries[entry_count++].value = strdup(value);
}

static const char *file_name(void) {
    const char *name = getenv("NVML_MOCK_SCENARIO");
    return name ? name : "/etc/nvml-mock.conf";
}

void scenario_refresh(void) {
    struct stat now;
    if (stat(file_name(), &now) != 0) return;
    if (now.st_size == read_at_size && !memcmp(&now.st_mtim, &read_at_mtime, sizeof read_at_mtime)) return;
    FILE *file = fopen(file_name(), "r");
    if (!file) return;
    read_at_mtime = now.st_mtim;
    read_at_size = now.st_size;
    forget_all();
    char line[4096];
    while (fgets(line, sizeof line, file)) {
        char *equals = strchr(line, '=');
        char *key = trimmed(line);
        if (*key == '#' || !equals) continue;
        *equals = '\0';
        remember(trimmed(line), trimmed(equals + 1));
    }
    fclose(file);
}

static const char *value_of(const char *key) {
    for (int i = entry_count - 1; i >= 0; i--)
        if (!strcmp(entries[i].key, key)) return entries[i].value;
    return NULL;
}

const char *system_value(const char *name) {
    char key[200];
    snprintf(key, sizeof key, "sys.%s", name);
    return value_of(key);
}

const char *own_gpu_value(int gpu, const char *name) {
    char key[200];
    snprintf(key, sizeof key, "gpu.%d.%s", gpu, name);
    return value_of(key);
}

const char *gpu_value(int gpu, const char *name) {
    const char *own = own_gpu_value(gpu, name);
    if (own) return own;
    char key[200];
    snprintf(key, sizeof key, "gpu.%s", name);
    return value_of(key);
}

int gpu_count(void) {
    const char *value = system_value("count");
    int count = value ? atoi(value) : 0;
    return count > MOST_GPUS ? MOST_GPUS : count;
}
