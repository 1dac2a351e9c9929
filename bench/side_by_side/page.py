def text(f):
    return ""
