"""Known failures of other memory systems, each with the tests here that assert the right behaviour.

Ids are those of the project's list of cases; `tests/integration/test_cases_*.py` name them in a comment above the test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

TESTS = Path(__file__).resolve().parents[1]
SEARCH = "integration/test_cases_search.py"
RECORD = "integration/test_cases_record.py"
USERS = "integration/test_cases_users.py"
FAULTS = "integration/test_cases_faults.py"
REST = "integration/test_cases_rest.py"
MCP = "integration/test_cases_mcp.py"
IMPORTERS = "unit/importers/"

CASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "API-01": (
            f"{REST}::test_ids_of_nothing",
            f"{REST}::test_an_id_of_a_search_works_everywhere",
            f"{REST}::test_limits",
            f"{REST}::test_a_walk_while_another_client_adds",
            f"{REST}::test_a_client_that_leaves_disturbs_no_other",
            f"{MCP}::test_ids_of_nothing",
            f"{MCP}::test_an_id_of_a_search_works_everywhere",
            f"{MCP}::test_limits_and_a_walk_while_another_client_adds",
        ),
        "API-02": (
            "integration/test_mcp_process.py::test_stdout_carries_the_protocol_alone",
            "integration/test_mcp_process.py::test_what_a_library_prints_goes_to_stderr",
            "unit/server/test_mcp.py::test_standard_fields_are_taken",
        ),
        "API-03": (
            f"{REST}::test_pictures_are_named_in_what_is_found_and_listed",
            "unit/cli/test_finding.py::test_json_names_attachments",
            "unit/server/test_sending.py::test_attachments_are_named_and_fetched_apart",
        ),
        "CFG-01": (
            "integration/test_chat_server.py::test_nothing_else_is_contacted",
            "unit/models/test_embedders.py::test_endpoints_open_without_a_connection",
            "unit/models/test_openai_chat.py::test_only_the_configured_key_and_address_are_used",
            "unit/models/test_openai_chat.py::test_without_address_and_key_nothing_is_called",
            "unit/models/test_openai_embeddings.py::test_without_a_key_none_is_sent_and_nothing_of_the_environment",
            "unit/models/test_rerankers.py::test_endpoints_open_without_a_connection",
            "unit/models/test_rerankers.py::test_a_key_of_another_part_is_not_taken",
            "unit/models/test_roles.py::test_a_missing_endpoint_is_reported_by_the_first_call",
            "unit/test_memory_record.py::test_a_chat_model_without_an_endpoint_stops_only_what_needs_it",
        ),
        "CLI-01": (
            "integration/test_cli_streams.py::test_closed_streams_end_with_a_code_that_the_help_lists",
            "integration/test_cli_streams.py::test_no_stream_has_to_be_there",
        ),
        "CON-01": (
            f"{USERS}::test_many_threads_write_and_search",
            f"{USERS}::test_two_processes_and_one_is_killed",
            f"{REST}::test_many_clients_write_and_search",
            f"{MCP}::test_many_calls_at_once",
            f"{MCP}::test_several_servers_on_one_store",
            "integration/test_proxy_openai.py::test_many_chats_at_once",
            "integration/test_server_process.py::test_the_command_line_works_beside_the_server",
        ),
        "CON-03": (
            f"{FAULTS}::test_what_was_added_before_a_stop_is_there_and_its_work_goes_on",
            f"{FAULTS}::test_a_damaged_file_is_said_to_be_damaged_and_left_alone",
            f"{FAULTS}::test_a_thousand_quick_turns_are_all_there",
        ),
        "DAT-01": (
            "unit/construction/test_episodes.py::test_a_session_of_unknown_time_gives_no_date_that_was_not_said",
            "unit/construction/test_episodes.py::test_the_prompt_shows_the_session_under_its_own_dates",
            "unit/construction/test_keep_drop.py::test_each_message_stands_with_its_own_time",
            "unit/strategies/leanmem/test_writing.py::test_a_date_that_nothing_supports_is_dropped",
            "unit/strategies/lightmem/test_facts.py::test_a_year_that_nobody_could_know",
            "unit/strategies/lightmem/test_facts.py::test_the_prompt_keeps_language_and_anchors_time",
            "unit/strategies/t2mem/test_loop.py::test_the_time_of_asking_is_labelled_as_that",
        ),
        "DAT-03": (
            f"{IMPORTERS}test_importers.py::test_dates_that_are_odd_are_noted",
            f"{IMPORTERS}test_locomo.py::test_a_time_that_cannot_be_read_is_unknown_and_its_wording_kept",
            f"{IMPORTERS}test_longmemeval.py::test_a_date_that_cannot_be_read_is_unknown",
        ),
        "DAT-05": (
            f"{RECORD}::test_turns_stand_where_their_time_puts_them",
            f"{RECORD}::test_times_of_every_kind_compare",
            "unit/store/test_layout.py::test_turns_one_by_one_in_any_order_of_arrival",
        ),
        "DEL-01": (
            "unit/strategies/leanmem/test_evolution.py::test_an_evolved_event_falls_back_to_what_is_left",
            "unit/strategies/leanmem/test_strategy.py::test_a_delete_takes_what_rests_on_the_turn_and_the_rest_is_written_anew",
            "unit/strategies/lightmem/test_strategy.py::test_nothing_of_a_deleted_turn_is_left",
            "unit/strategies/lightmem/test_updating.py::test_what_changed_an_entry_counts_as_its_source",
            "unit/strategies/t2mem/test_t2mem.py::test_a_deleted_turn_is_in_no_entry_and_no_prompt",
        ),
        "DEL-03": (
            f"{USERS}::test_deleting_a_user_leaves_the_others",
            f"{USERS}::test_an_empty_scope_is_not_everybody",
            f"{USERS}::test_an_unknown_user_has_nothing_to_delete",
            "unit/test_memory_record.py::test_a_turn_a_session_and_everything",
        ),
        "EMB-01": (
            "unit/models/test_openai_embeddings.py::test_every_text_is_its_own_neighbour",
            "unit/models/test_openai_embeddings.py::test_one_bad_text_costs_only_itself",
            "unit/models/test_openai_embeddings.py::test_too_few_vectors_are_never_shifted",
        ),
        "EMB-03": (
            f"{RECORD}::test_another_embedder_is_noticed_and_reindexing_settles_it",
            f"{RECORD}::test_an_interrupted_reindex_leaves_the_old_vectors_in_use_and_goes_on",
        ),
        "EVL-01": (
            "unit/bench/test_datasets.py::test_evl_01_adversarial_questions_are_asked_only_when_the_spec_says_so",
            "unit/bench/test_datasets.py::test_evl_01_categories_have_their_number_and_name",
        ),
        "EVL-02": (
            f"{IMPORTERS}test_locomo.py::test_evl_02_adversarial_questions_have_a_trap_and_no_answer",
            "unit/bench/judging/test_judge.py::test_evl_02_adversarial_replies",
            "unit/bench/measures/test_abstention.py::test_a_question_whose_answer_is_that_there_is_none",
            "unit/bench/measures/test_abstention.py::test_a_refusal_is_right_and_the_trap_is_wrong",
            "unit/bench/measures/test_names.py::test_abstaining_is_a_line_of_its_own",
        ),
        "EVL-03": (
            f"{IMPORTERS}test_locomo.py::test_evl_03_evidence",
            f"{IMPORTERS}test_locomo.py::test_evl_03_gold",
            f"{IMPORTERS}test_locomo.py::test_evl_03_only_irregular_strings_are_reported",
            f"{IMPORTERS}test_locomo.py::test_evl_03_the_report_lists_every_irregularity_and_no_other",
            f"{IMPORTERS}test_locomo.py::test_sessions_are_ordered_by_number",
            "unit/bench/test_datasets.py::test_evl_03_a_question_without_evidence_stays",
        ),
        "EVL-04": (
            f"{IMPORTERS}test_importers.py::test_evl_04_answers_become_text",
            f"{IMPORTERS}test_locomo.py::test_evl_04_answers_that_are_not_text",
            "unit/bench/measures/test_answers.py::test_gold_answers_that_are_no_strings",
        ),
        "EVL-05": (
            "unit/bench/measures/test_coverage.py::test_without_gold_every_coverage_is_undefined",
            "unit/bench/measures/test_longmemeval.py::test_without_gold_they_are_undefined",
            "unit/bench/measures/test_names.py::test_without_gold_all_names_are_there_and_undefined",
            "unit/bench/measures/test_ranking.py::test_questions_without_gold_are_in_no_mean",
            "unit/bench/test_report.py::test_without_a_judge_no_retrieval_figure_is_an_accuracy",
            "unit/bench/test_tables.py::test_questions_without_gold_are_in_no_retrieval_measure",
        ),
        "EVL-06": (
            "unit/bench/judging/test_judge.py::test_evl_06_a_type_that_is_not_the_benchmark_s_is_an_error_of_the_question",
            "unit/bench/judging/test_judge.py::test_evl_06_abstention",
            "unit/bench/judging/test_rubrics.py::test_evl_06_a_question_without_an_answer_has_its_own_rubric",
            "unit/bench/judging/test_rubrics.py::test_evl_06_an_unknown_type_is_an_error",
            "unit/bench/test_experiment.py::test_an_unknown_type_of_a_benchmark_is_an_error_of_that_question",
        ),
        "EVL-07": (
            "unit/bench/judging/test_judge.py::test_evl_07_then_it_is_unscored_and_every_reply_is_kept",
            "unit/bench/judging/test_judge.py::test_evl_07_what_can_t_be_read_is_asked_again_once",
            "unit/bench/judging/test_verdicts.py::test_evl_07_the_table",
        ),
        "EVL-08": (
            "unit/bench/judging/test_calibration.py::test_evl_08_a_judge_that_knows",
            "unit/bench/judging/test_calibration.py::test_evl_08_a_judge_that_passes_everything",
            "unit/bench/judging/test_calibration.py::test_evl_08_by_kind_a_judge_that_lets_vague_answers_pass",
            "unit/bench/judging/test_judge.py::test_evl_08_everything_that_changes_a_verdict_is_in_the_configuration",
            "unit/bench/judging/test_judge.py::test_evl_08_the_end_of_a_long_answer_is_kept_and_the_cut_is_said",
        ),
        "EVL-09": (
            "unit/bench/judging/test_judge.py::test_evl_09_an_answer_that_was_not_made_is_never_graded",
            "unit/bench/judging/test_judge.py::test_evl_09_errors_of_the_endpoint_are_the_caller_s",
            "unit/bench/test_experiment.py::test_a_slice_is_a_part_of_the_whole",
            "unit/bench/test_experiment.py::test_failures_are_no_wrong_answers",
            "unit/bench/test_report.py::test_failures_stand_beside_the_figures_with_their_reasons",
            "unit/bench/test_results.py::test_a_comparison_names_the_questions_that_only_one_has",
            "unit/bench/test_results.py::test_a_failure_is_no_wrong_answer",
            "unit/bench/test_tables.py::test_failed_and_unread_answers_are_in_the_lower_bound_only",
        ),
        "EVL-11": (
            "unit/bench/test_datasets.py::test_evl_11_labels_change_nothing_that_is_stored",
            "unit/bench/test_datasets.py::test_evl_11_roles_that_are_not_stored_are_no_gold_and_are_said",
            "unit/bench/test_datasets.py::test_evl_11_the_assistants_turn_is_found",
            "unit/bench/test_datasets.py::test_evl_11_what_is_stored_is_what_add_stores",
            "unit/bench/test_experiment.py::test_gold_labels_change_nothing_that_is_retrieved",
        ),
        "FTS-01": (
            f"{SEARCH}::test_hyphens_and_colons_are_no_syntax",
            f"{REST}::test_queries_are_words",
            f"{MCP}::test_queries_are_words",
        ),
        "FTS-02": (
            f"{SEARCH}::test_operators_are_words",
            f"{SEARCH}::test_no_query_is_malformed",
        ),
        "FTS-04": (f"{SEARCH}::test_a_longer_question_finds_no_less",),
        "FTS-05": (
            f"{SEARCH}::test_texts_and_queries_without_words",
            f"{SEARCH}::test_an_emoji_can_be_found",
        ),
        "INJ-01": (
            f"{REST}::test_stored_text_stays_in_its_fence",
            f"{MCP}::test_stored_text_stays_in_its_fence",
            "unit/server/test_remembering.py::test_stored_text_stays_in_its_fence_before_the_question",
            "unit/bench/judging/test_judge.py::test_inj_01_the_answer_is_quotation_and_can_t_close_its_marks",
            "unit/bench/judging/test_verdicts.py::test_a_verdict_quoted_inside_the_reason_does_not_count",
            "unit/bench/test_drafting.py::test_stored_text_is_quotation_in_the_prompt",
            "unit/construction/test_episodes.py::test_stored_text_stays_inside_its_marks",
            "unit/construction/test_keep_drop.py::test_stored_text_stays_inside_its_fence",
            "unit/strategies/leanmem/test_writing.py::test_a_forged_fence_stays_inside",
            "unit/strategies/lightmem/test_facts.py::test_stored_text_is_quoted_and_cannot_leave_its_fence",
            "unit/strategies/lightmem/test_strategy.py::test_an_instruction_in_a_turn_stays_a_quotation",
            "unit/strategies/t2mem/test_loop.py::test_stored_text_and_memory_stay_inside_their_marks",
            "unit/strategies/test_search_o1.py::test_stored_instructions_are_quotation_in_every_prompt",
        ),
        "ISO-01": (
            f"{USERS}::test_a_user_is_alone_on_every_path",
            f"{USERS}::test_another_users_id_is_a_missing_id",
            f"{USERS}::test_a_search_without_a_user_or_with_an_unknown_filter_is_refused",
            f"{USERS}::test_a_prompt_holds_nothing_of_others",
            f"{REST}::test_a_user_is_alone_on_every_path",
            f"{REST}::test_prompts_hold_nothing_of_others",
            f"{MCP}::test_a_user_is_alone_on_every_path",
            "integration/test_mcp_process.py::test_a_key_opens_the_history_of_its_user_only",
            "unit/server/test_proxy.py::test_with_keys",
        ),
        "ISO-03": (
            f"{USERS}::test_a_filter_matches_exactly_its_value",
            f"{USERS}::test_a_crafted_value_deletes_nothing_else",
            f"{USERS}::test_unknown_keys_of_a_message_are_refused",
            f"{REST}::test_a_filter_matches_exactly_its_value",
            f"{REST}::test_a_crafted_value_deletes_nothing_else",
            f"{REST}::test_unknown_keys_of_a_message_are_refused",
            f"{MCP}::test_a_filter_matches_exactly_its_value",
            f"{MCP}::test_a_crafted_value_deletes_nothing_else",
            f"{MCP}::test_unknown_keys_of_a_message_are_refused",
        ),
        "LLM-01": (
            "unit/models/test_openai_chat.py::test_leading_reasoning_is_no_part_of_the_text",
            "unit/models/test_openai_stream.py::test_leading_reasoning_is_never_shown",
            "unit/models/test_structured.py::test_what_is_accepted",
            "unit/models/test_structured.py::test_what_is_asked_again_once_and_then_reported",
            "unit/models/test_thinking.py::test_what_leads_is_reasoning",
        ),
        "LLM-02": (
            "unit/models/test_json_reply.py::test_the_likeliest_value",
            "unit/models/test_structured.py::test_what_is_accepted",
            "unit/models/test_structured.py::test_what_is_asked_again_once_and_then_reported",
        ),
        "LLM-04": (
            "unit/models/test_openai_chat.py::test_text_in_other_fields_is_never_the_answer",
            "unit/models/test_openai_chat.py::test_content_wins_over_reasoning",
            "unit/models/test_openai_stream.py::test_reasoning_and_tool_calls_are_no_answer",
            "unit/models/test_structured.py::test_what_is_asked_again_once_and_then_reported",
            "unit/models/test_structured.py::test_the_final_object_wins_over_the_draft_in_the_reasoning",
        ),
        "LLM-05": (
            "integration/test_chat_server.py::test_a_stream_comes_in_pieces_and_may_break",
            "unit/models/test_openai_chat.py::test_optional_accounting_may_be_missing",
            "unit/models/test_openai_stream.py::test_housekeeping_chunks_are_skipped",
            "unit/models/test_openai_stream.py::test_a_stream_without_an_end_is_cut",
            "unit/models/test_usage.py::test_a_total_names_its_holes",
        ),
        "LLM-06": (
            "unit/models/test_openai_refusals.py::test_a_refused_format_steps_down_once_for_all_calls",
            "unit/models/test_openai_refusals.py::test_another_reason_drops_nothing",
            "unit/models/test_structured.py::test_what_is_asked_again_once_and_then_reported",
            "unit/models/test_structured.py::test_a_server_without_formats_gets_the_instructions",
        ),
        "LLM-07": (
            f"{FAULTS}::test_models_that_are_down_cost_no_turn",
            "integration/test_chat_server.py::test_transient_failures_pass",
            "integration/test_chat_server.py::test_no_answer_in_time",
            "unit/models/test_openai_chat.py::test_an_error_inside_a_200_is_raised_with_the_servers_words",
            "unit/models/test_wrappers.py::test_the_last_error_is_raised_with_the_count",
            "unit/models/test_wrappers.py::test_what_can_not_pass_is_not_tried_again",
            "unit/models/test_wrappers.py::test_retry_after_is_honoured",
            "unit/models/test_wrappers.py::test_failures_that_last_for_ever_end_in_an_error",
        ),
        "LLM-08": (
            "unit/models/test_cassettes.py::test_a_prompt_larger_than_the_window",
            "unit/models/test_context_window.py::test_a_count_that_is_too_small",
            "unit/models/test_context_window.py::test_smaller_prompts_are_tried_twice",
            "unit/models/test_openai_window.py::test_a_prompt_that_was_cut_in_silence_is_an_error",
            "unit/models/test_openai_window.py::test_without_a_count_the_server_is_asked_for_its_window_once",
            "unit/models/test_openai_window.py::test_a_configured_window_is_enforced_before_sending",
            "unit/models/test_openai_window.py::test_a_prompt_that_is_refused_for_its_length",
            "unit/models/test_structured.py::test_an_empty_list_of_a_cut_prompt_is_no_result",
            "unit/test_memory_record.py::test_a_small_window_gets_the_best_half_of_the_evidence",
        ),
        "LLM-09": ("unit/models/test_structured.py::test_ids_that_were_not_offered_are_dropped_and_counted",),
        "PXY-01": (
            "unit/server/test_proxy_failures.py::test_a_template_that_takes_one_message_of_instructions_at_the_start",
            "unit/server/test_proxy_failures.py::test_a_form_that_is_refused_is_not_tried_again",
            "unit/server/test_remembering.py::test_no_message_is_added_and_no_role_changes",
        ),
        "PXY-03": (
            "unit/server/test_proxy.py::test_a_reply_that_was_asked_for_again_is_not_what_was_said",
            "unit/server/test_conversations.py::test_of_many_drafts_the_one_gone_on_from_is_current",
            "unit/server/test_conversations.py::test_what_an_edit_left_is_not_current",
        ),
        "PXY-04": (
            "unit/server/test_proxy_failures.py::test_a_stream_that_ends_with_its_last_chunk_is_kept",
            "unit/server/test_chat_replies.py::test_a_stream_that_ends_with_its_last_chunk",
            "unit/server/test_chat_replies.py::test_whatever_was_seen_to_end_is_kept_wherever_a_stream_is_cut",
        ),
        "MCP-01": (
            f"{MCP}::test_arguments_in_the_shapes_that_clients_send",
            f"{MCP}::test_one_rule_for_names_that_are_not_known",
        ),
        "MCP-02": (
            f"{MCP}::test_a_huge_turn_is_cut_and_read_on",
            f"{MCP}::test_a_result_has_a_size_of_its_own",
        ),
        "RET-02": (
            "unit/retrieval/test_rerank.py::test_what_was_just_below_the_cut_comes_in",
            "unit/retrieval/test_rerank.py::test_a_failing_reranker_leaves_the_first_stage",
        ),
        "RET-03": (
            "unit/models/test_llm_rerank.py::test_what_is_read",
            "unit/retrieval/test_rerank.py::test_replies_of_a_chat_model",
        ),
        "RET-04": (
            f"{SEARCH}::test_the_match_is_found_in_every_mode",
            f"{SEARCH}::test_ties_have_one_order",
        ),
        "RET-05": (f"{SEARCH}::test_the_block_fits_the_budget",),
        "SEM-01": (
            f"{RECORD}::test_every_passage_says_who_speaks",
            f"{RECORD}::test_every_line_of_evidence_says_who_spoke",
            f"{RECORD}::test_a_speaker_filter_gives_only_that_speaker",
            "unit/store/test_history.py::test_a_filter_of_speakers_returns_only_their_turns",
        ),
        "SEM-02": (
            "unit/construction/test_episodes.py::test_a_session_in_another_language_is_kept_as_it_is",
            "unit/construction/test_extracts.py::test_a_script_without_case_has_topics_and_sentences",
            "unit/construction/test_keep_drop.py::test_words_and_names_of_other_languages_are_kept",
            "unit/strategies/leanmem/test_writing.py::test_any_language_keeps_its_words",
            "unit/strategies/leanmem/test_writing.py::test_prompts_ask_for_the_language_of_the_conversation",
            "unit/strategies/lightmem/test_facts.py::test_the_prompt_keeps_language_and_anchors_time",
            "unit/strategies/lightmem/test_strategy.py::test_facts_in_the_language_of_the_conversation",
        ),
        "SEM-03": (
            "unit/strategies/lightmem/test_strategy.py::test_a_fact_that_changes",
            "unit/strategies/lightmem/test_updating.py::test_the_record_as_it_stood_before_an_update",
        ),
        "TOK-01": (f"{SEARCH}::test_words_without_spaces_between",),
        "TOK-03": (
            f"{SEARCH}::test_every_form_of_a_word_is_the_word",
            f"{SEARCH}::test_ids_are_compared_exactly_as_given",
        ),
        "TOK-04": (f"{SEARCH}::test_a_word_of_most_turns_still_counts",),
        "VER-02": (
            f"{RECORD}::test_what_goes_in_comes_out",
            f"{RECORD}::test_a_hit_holds_the_whole_text",
        ),
        "SRC-01": (
            "unit/retrieval/test_hybrid.py::test_a_name_alone_finds_what_its_speaker_said",
            "unit/retrieval/test_hybrid.py::test_where_nothing_else_matches_a_name_does",
            "unit/integrations/test_langgraph.py::test_a_key_is_found_by_its_name",
        ),
        "M0-01": (
            "unit/integrations/test_mem0.py::test_zero_is_none_of_them",
            "unit/integrations/test_mem0_config.py::test_a_configuration_names_store_and_models",
            "unit/integrations/test_mem0_config.py::test_the_rest_is_refused_by_name",
            "unit/integrations/test_mem0_config.py::test_a_configuration_is_no_record",
            "unit/integrations/test_mem0_config.py::test_the_asynchronous_one_has_the_same_calls",
            "unit/integrations/test_mem0_config.py::test_there_is_no_hosted_service",
        ),
        "VER-03": (
            f"{RECORD}::test_a_megabyte_in_one_message",
            f"{RECORD}::test_twenty_megabytes_are_refused_before_anything_is_stored",
        ),
        "VER-04": (
            f"{RECORD}::test_nothing_is_refused",
            f"{RECORD}::test_tool_calls_and_images_are_kept_without_words",
            f"{RECORD}::test_no_fact_comes_from_nothing",
        ),
        "VER-05": (f"{RECORD}::test_a_retry_is_one_turn_and_a_repetition_is_two",),
    }
)


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("case", CASES)
def test_every_test_that_is_named_exists(case: str) -> None:
    for test in CASES[case]:
        file, name = test.split("::")
        assert name.startswith("test_")
        assert name in functions(TESTS / file)


@pytest.mark.parametrize("file", [SEARCH, RECORD, USERS, FAULTS, REST, MCP])
def test_the_comments_above_the_tests_say_the_same(file: str) -> None:
    lines = (TESTS / file).read_text(encoding="utf-8").splitlines()
    told = set()
    for name, node in functions(TESTS / file).items():
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        comment = re.fullmatch(r"# ([A-Z]{3}-\d\d)", lines[first - 2])
        if comment and name.startswith("test_"):
            told.add((comment[1], f"{file}::{name}"))
    assert told == {(case, test) for case, tests in CASES.items() for test in tests if test.startswith(file)}
