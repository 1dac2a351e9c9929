"""System messages in Chinese are known by their number and by their words; what programs print in Chinese, by words."""

# ruff: noqa: RUF001 - Chinese punctuation
import pytest

from nodegate.knowledge.signatures import find
from nodegate.knowledge.words import Cause, Side
from nodegate.triage.triage import triage

BEFORE = "2026-06-01 08:00:00 步骤 10 损失 2.0\n"
KNOWN = {
    "OSError: [Errno 28] 设备上没有空间: '/ckpt/a.pt'": "disk_full",
    "Error: something in a language of its own (os error 28)": "disk_full",
    "tar: ckpt.tar: 写入错误: 设备上没有空间": "disk_full",
    "OSError: [Errno 122] 超出磁盘限额: '/home/u/x'": "disk_quota",
    "ls: 正在读取目录 '/mnt/data': 输入/输出错误": "file_handle_stale",
    "OSError: [Errno 116] 过旧的文件控柄: '/mnt/nfs/a'": "file_handle_stale",
    "OSError: [Errno 30] 只读文件系统: '/ckpt'": "read_only",
    "run.sh: fork: 无法分配内存": "host_memory",
    "错误：内存不足，进程被系统终止": "host_memory",
    "OSError: [Errno 24] 打开的文件过多: '/data/x'": "nccl_open_files",
    "OSError: [Errno 98] 地址已在使用": "port_taken",
    "bash: ./run.sh: 权限不够": "file_denied",
    "PermissionError: [Errno 13] 权限不够: '/ckpt/llm'": "file_denied",
    "ssh: connect to host gpu07 port 22: 拒绝连接": "ssh_no_connection",
    "mount.nfs: 连接超时": "connection_error_zh",
    "run.sh: 行 12: 48211 已杀死               python train.py": "bare_killed",
    "run.sh: 第 3 行： 812 段错误               （核心已转储） python train.py": "died_by_signal_zh",
    "bash: conda: 未找到命令": "conda_missing",
    "launch.sh: 第 9 行： torchrun: 未找到命令": "command_not_found",
    "python: 载入共享库时出错: libcudnn.so.9: 无法打开共享对象文件": "library_missing",
    "ERROR GPU 1 发生不可纠正的ECC错误": "gpu_memory_error_zh",
    "训练异常退出：显存不足": "gpu_memory_full_zh",
    "训练失败：通信超时": "collective_timeout_zh",
    "任务失败，退出码 1": "error_line",
    "bash: ./all_reduce_perf: 无法执行二进制文件: 可执行文件格式错误": "wrong_architecture",
}
HARMLESS = (
    "校验完成：错误 0 个，失败 0 个",
    "配置：通信超时时间 1800 秒，失败重试次数 3",
    "GPU 掉卡检测：正常",
    "未发现异常",
    "平均误差 0.03 错误率 0.01",
    "如果出现通信超时错误，请检查网络配置",
    "加载数据集：跳过失败样本 0 条，异常样本数 0",
    "异常检测模块启动，错误日志将写入 /log/err.txt",
)


@pytest.mark.parametrize("line", KNOWN)
def test_a_line_in_chinese_is_known(line):
    hit = find(line, Side.USER)
    assert hit is not None
    assert hit.signature.id == KNOWN[line]


@pytest.mark.parametrize("line", HARMLESS)
def test_words_of_errors_in_what_is_harmless_are_no_error(tmp_path, line):
    (tmp_path / "job.log").write_text(f"{BEFORE}2026-06-01 08:01:00 {line}\n")
    found = triage([str(tmp_path)])
    assert (found.root, found.cause) == (None, Cause.UNKNOWN)


def test_a_gpu_and_a_node_that_are_said_to_be_lost_are_named_and_suspected(tmp_path):
    (tmp_path / "job.log").write_text(f"{BEFORE}2026-06-01 08:01:00 错误：节点 gpu021 GPU2 掉卡\n")
    found = triage([str(tmp_path)])
    assert (found.root.kind.id, found.where.node, found.where.gpu, found.sure) == ("gpu_lost_zh", "gpu021", 2, False)


def test_a_node_that_is_said_to_be_lost_is_named(tmp_path):
    (tmp_path / "job.log").write_text(f"{BEFORE}2026-06-01 08:01:00 错误：节点 gpu033 失联\n")
    found = triage([str(tmp_path)])
    assert (found.root.kind.id, found.where.node, found.sure) == ("node_lost_zh", "gpu033", False)
