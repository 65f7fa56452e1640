"""Studies of papers on any model and corpus, in runs that survive a kill.

    from tl_ffblock.experiments import Config, run_studies, study

    config = Config(model="minilm", data="corpus.txt", out="results")
    finished = run_studies("contextualization,bypass", config)
    finished.tables["contextualization_changes"]
    run_studies([study("outliers", ignored_dimensions=0)], Config(model="minilm", data="corpus.txt", out="more"))

1. `studies.py` lists the studies by name; a paper's folder (`kobayashi/`) holds one file a study.
2. What makes runs of them, `tl_ffblock.corpus`, knows none of them.
"""

from tl_ffblock.corpus.settings import Config
from tl_ffblock.experiments.studies import STUDIES, run_studies, study

__all__ = ["STUDIES", "Config", "run_studies", "study"]
