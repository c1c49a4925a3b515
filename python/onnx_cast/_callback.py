"""Asks the process that called :func:`onnx_cast.reduce` whether its function fails on a model. Run by the program, as a command.

python _callback.py ADDRESS KEY MODEL INPUTS
"""

import sys
from multiprocessing.connection import Client

#: The exit status of a function that fails, which nothing else here has.
FAILS = 86


def main() -> int:
    address, key, model, inputs = sys.argv[1:]
    with Client(address, authkey=bytes.fromhex(key)) as connection:
        connection.send((model, inputs))
        return FAILS if connection.recv() else 0


if __name__ == "__main__":
    sys.exit(main())
