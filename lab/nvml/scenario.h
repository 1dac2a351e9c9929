/* The scenario file: what the mock library answers. See nvmlmock.c for its form. */
#ifndef SCENARIO_H
#define SCENARIO_H

#define MOST_GPUS 32

/* Read the file again if it changed. Its name is $NVML_MOCK_SCENARIO, else /etc/nvml-mock.conf. */
void scenario_refresh(void);

/* The value of `sys.NAME`, or NULL. */
const char *system_value(const char *name);

/* The value of `gpu.N.NAME`, else of `gpu.NAME`, or NULL. */
const char *gpu_value(int gpu, const char *name);

/* The value of `gpu.N.NAME` alone, or NULL: for faults, which belong to one GPU. */
const char *own_gpu_value(int gpu, const char *name);

/* How many GPUs there are. */
int gpu_count(void);

#endif
