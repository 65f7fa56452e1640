"""The table of docs/experiments.md: figures, tables and definitions of papers, our call, and what shows it.

A test checks that every call, test, page and stored table exists.
"""

from collections.abc import Callable, Mapping

from docs.markdown import table

KOBAYASHI, VIG, CLARK = "Kobayashi et al. 2024", "Vig 2019", "Clark et al. 2019"
GEVA, KATZ = "Geva et al. 2021", "Katz and Belinkov 2023"
_CHANGES, _VECTORS, _PAIRS = (
    f"tests/experiments/test_{name}.py::" for name in ("contextualization", "vectors", "amplification")
)
_FLOW = "docs/results/flow-smollm2/"

ROWS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        KOBAYASHI,
        "eq. 1-10, Fig. 1",
        "layer as a sum over tokens, every scope",
        "ffb.contribution_maps",
        "tests/integration/test_oracle.py::test_maps_are_the_oracles",
    ),
    (
        KOBAYASHI,
        "eq. 11-14, 40-51",
        "IG through the activation, in closed form",
        "ffb.decompose",
        "tests/unit/test_activations.py::test_coefficients_are_the_path_integrals",
    ),
    (
        KOBAYASHI,
        "appendix E.2",
        "IG by captum's Gauss-Legendre quadrature",
        "ffb.contribution_maps",
        "tests/integration/test_oracle.py::test_exact_is_captum_at_fifty_steps",
    ),
    (
        KOBAYASHI,
        "Fig. 3, 14-18",
        "contextualization change by component",
        "contextualization",
        f"{_CHANGES}test_changes_are_averaged_over_sequences",
    ),
    (
        KOBAYASHI,
        "Fig. 4, note 3",
        "FF-amp matrix",
        "ffb.amplification",
        "tests/unit/test_measures.py::test_amplification_is_the_difference_of_normalised_maps",
    ),
    (
        KOBAYASHI,
        "Tab. 1-3, note 4",
        "most amplified pairs",
        "amplification",
        f"{_PAIRS}test_pairs_are_averaged_over_the_corpus",
    ),
    (KOBAYASHI, "Fig. 5, 13", "categories of pairs, by rule", "amplification", f"{_PAIRS}test_categories_by_rule"),
    (
        KOBAYASHI,
        "Fig. 5, 13",
        "categories of pairs, by hand",
        "tl_ffblock.experiments.kobayashi.annotation",
        "tests/experiments/test_pair_annotation.py::test_shares_and_agreement_of_two_readers",
    ),
    (
        KOBAYASHI,
        "section 5.2, note 6",
        "Spearman of FF-amp and mutual information",
        "amplification",
        f"{_PAIRS}test_equal_pmi_is_exactly_equal",
    ),
    (
        KOBAYASHI,
        "Fig. 6, 19-23",
        "cancellation by RES and LN",
        "contextualization",
        f"{_CHANGES}test_cumulative_changes_start_before_the_feed_forward",
    ),
    (
        KOBAYASHI,
        "Fig. 7, 24-27",
        "norms of FF's output and the bypass",
        "bypass",
        f"{_VECTORS}test_norms_of_feed_forward_and_bypass",
    ),
    (
        KOBAYASHI,
        "Fig. 8, 28-31",
        "FF's outliers and the next gain",
        "outliers",
        f"{_VECTORS}test_outliers_against_the_next_gain",
    ),
    (
        KOBAYASHI,
        "Fig. 32",
        "change without the smallest gains",
        "outliers",
        f"{_VECTORS}test_all_dimensions_give_the_change_of_the_maps",
    ),
    (
        KOBAYASHI,
        "Fig. 9, 10",
        "maps of one sentence",
        "ffb.contribution_maps",
        "tests/integration/test_golden.py::test_minilm_maps_are_the_golden_ones",
    ),
    (
        KOBAYASHI,
        "appendix E, Fig. 11",
        "Shapley values",
        "attribution-methods",
        "tests/experiments/test_shapley.py::test_a_layer_is_shared_as_the_definition_says",
    ),
    (KOBAYASHI, "appendix F, Fig. 12", "time by length", "cost", "docs/results/minilm-methods/cost_time.csv"),
    (
        KOBAYASHI,
        "appendix A.2",
        "rollout, attention flow, ALTI, GlobEnc",
        "ffb.aggregation",
        "tests/integration/test_aggregation.py::test_the_published_formulas_from_the_weights_of_hugging_face",
    ),
    (
        KOBAYASHI,
        "appendix A.2, future work",
        "linear approximations of the activation",
        "attribution-methods",
        "tests/experiments/test_shapley.py::test_approximations_have_their_slope_and_leave_the_rest_to_the_bias",
    ),
    (
        KOBAYASHI,
        "section 7",
        "change from layer to layer",
        "between-layers",
        "tests/experiments/test_between_layers.py::test_every_pair_of_layers",
    ),
    (
        KOBAYASHI,
        "all of them",
        "numbers of text and tables beside ours",
        "tl_ffblock.experiments.kobayashi.replication",
        "tests/cli/test_replicate.py::test_every_number_of_the_paper_has_its_place",
    ),
    (
        VIG,
        "section 2",
        "attention by head and layer",
        "ffb.attention_maps",
        "tests/integration/test_attention.py::test_patterns_are_those_of_the_hugging_face_model",
    ),
    (
        VIG,
        "section 2.3",
        "query times key by dimension",
        "ffb.attention_scores",
        "tests/integration/test_attention.py::test_products_sum_to_the_models_own_scores",
    ),
    (
        VIG,
        "section 2.3",
        "neurons of distance decay, and their edit",
        "ffb.heads.distance_decay",
        "tests/heads/test_decay.py::test_a_planted_linear_decay_is_found_and_its_edit_moves_it_as_predicted",
    ),
    (
        VIG,
        "section 2.1",
        "gender in coreference",
        "ffb.attention_maps",
        "tests/docs/test_vig.py::test_a_planted_head_of_a_stereotype_is_found",
    ),
    (
        VIG,
        "section 2.2",
        "heads of paraphrases",
        "ffb.heads.summary",
        "tests/heads/test_statistics.py::test_a_planted_paraphrase_head_is_told_by_its_share_on_the_other_sentence",
    ),
    (
        CLARK,
        "section 3.1-3.2",
        "what heads attend to, no-op",
        "heads",
        "tests/heads/test_statistics.py::test_no_op_shares_are_by_kind_of_query",
    ),
    (
        CLARK,
        "section 3.2",
        "gradients along attention",
        "ffb.heads.attention_gradients",
        "tests/heads/test_effects.py::test_gradients_are_finite_differences",
    ),
    (CLARK, "section 3.3", "entropy", "heads", "tests/heads/test_statistics.py::test_entropy_is_scipys"),
    (
        CLARK,
        "section 4.2",
        "relations by head",
        "heads",
        "tests/heads/test_relations.py::test_hits_are_those_of_a_plain_loop",
    ),
    (
        CLARK,
        "section 5, Tab. 3",
        "probes of all heads",
        "probes",
        "tests/heads/test_probes.py::test_probes_are_those_of_another_optimiser",
    ),
    (
        CLARK,
        "section 6",
        "divergences and clusters of heads",
        "heads",
        "tests/heads/test_statistics.py::test_divergences_are_scipys",
    ),
    (
        GEVA,
        "section 3",
        "trigger examples of neurons",
        "ffb.memories.find_triggers",
        "tests/memories/test_triggers.py::test_the_stream_finds_what_a_search_of_everything_finds",
    ),
    (
        GEVA,
        "section 3.2",
        "patterns by hand",
        "tl_ffblock.experiments.geva.annotation",
        "tests/experiments/test_annotation.py::test_patterns_count_from_three_triggers_on",
    ),
    (
        GEVA,
        "section 3.3",
        "triggers without a word",
        "memories",
        "tests/memories/test_causes.py::test_a_shortened_trigger_is_a_text_of_its_own",
    ),
    (
        GEVA,
        "section 4",
        "agreement, ranks, confident values",
        "memories",
        "tests/memories/test_triggers.py::test_a_planted_memory_is_found_and_agrees",
    ),
    (
        GEVA,
        "section 5.1",
        "composition",
        "memories",
        "tests/experiments/test_memories.py::test_composition_and_refinement_follow_from_the_models_own_activations",
    ),
    (
        GEVA,
        "section 5.2",
        "refinement through the residual stream",
        "memories",
        "docs/results/memories-smollm2-wikitext2/refinement.csv",
    ),
    (
        KATZ,
        "eq. 3",
        "overlap I_k",
        "ffb.graphs.overlap",
        "tests/graphs/test_flow.py::test_overlap_is_one_on_itself_symmetric_and_counts",
    ),
    (
        KATZ,
        "limitations",
        "overlap that knows similar tokens",
        "ffb.graphs.overlap",
        "tests/graphs/test_flow.py::test_overlap_by_similarity_is_i_k_where_no_tokens_are_alike",
    ),
    (
        KATZ,
        "section 3, Fig. 2, 3, 5, 17",
        "heads and values against attention, block and final output",
        "ffb.flow_graph",
        f"{_FLOW}overlap.csv",
    ),
    (KATZ, "appendix D.1, Fig. 13", "facts answered wrongly", "ffb.graphs.overlap", f"{_FLOW}more.csv"),
    (KATZ, "appendix D.1, Fig. 14", "the answer along depth", "ffb.logit_lens", f"{_FLOW}depth.csv"),
    (
        KATZ,
        "appendix D.2, Fig. 15, 16",
        "attention, the stream and the attention before",
        "ffb.graphs.overlap",
        f"{_FLOW}more.csv",
    ),
    (KATZ, "appendix D.2, Fig. 18", "attention's values and their tokens", "ffb.flow_graph", f"{_FLOW}values.csv"),
    (
        KATZ,
        "appendix D.3, Fig. 19, 20",
        "queries and keys",
        "ffb.flow_graph",
        "tests/graphs/test_flow.py::test_a_query_times_its_key_matrix_gives_the_scores",
    ),
    (
        KATZ,
        "section 4, appendix A",
        "flow graphs and their pruning",
        "ffb.flow_graph",
        "tests/graphs/test_flow.py::test_the_papers_settings_give_the_papers_counts",
    ),
    (KATZ, "section 5.1", "heads of indirect objects", "ffb.flow_graph", f"{_FLOW}ioi.csv"),
    (KATZ, "section 5.2, appendix E", "the norm as a filter", "ffb.flow_graph", f"{_FLOW}norms.csv"),
    (KATZ, "Fig. 8, 9", "neurons that are always on, rogue dimensions", "ffb.flow_graph", f"{_FLOW}always_on.csv"),
)
"""Paper, place, definition, call or study, and the test or stored table."""


def rows() -> str:
    """The table."""
    written = []
    for paper, place, what, call, shown in ROWS:
        file, _, test = shown.partition("::")
        named = f"`{call}`" if "." in call else f"study `{call}`"
        written.append([paper, place, what, named, f"`{test}` in `{file}`" if test else f"`{file}`"])
    return table(["paper", "place", "definition", "call", "shown by"], written)


BLOCKS: Mapping[str, Callable[[], str]] = {"papers": rows}
