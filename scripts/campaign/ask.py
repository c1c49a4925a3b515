"""Asks the campaign about a part: ask.py SOCKET TOOL MODEL INPUTS. Exits with the status of what is wrong with it."""

import socket
import sys

asking = socket.socket(socket.AF_UNIX)
asking.connect(sys.argv[1])
asking.sendall("\0".join(sys.argv[2:]).encode())
sys.exit(asking.recv(1)[0])
