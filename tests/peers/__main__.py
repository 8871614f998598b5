import sys

from peers.command import main

sys.exit(main())
