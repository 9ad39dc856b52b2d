"""Lets tests interrupt processes where pytest itself runs in the background of a shell, which has SIGINT ignored."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
