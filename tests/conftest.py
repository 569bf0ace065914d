"""What holds for every test: no time limits inside property tests, one thread for each numeric library.

Times depend on what else the machine does, so no test may fail by them; and threads that wait for each
other on a busy machine make tiny models slower, not faster.
"""

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

settings.register_profile("here", deadline=None)
settings.load_profile("here")
