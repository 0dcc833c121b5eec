from surefoot.models.ladder import PATIENCE_S, patience_s, rungs_from


def test_models_are_tried_from_a_rung_downwards() -> None:
    ladder = ("a", "b", "c")
    assert rungs_from(ladder, 0) == [(0, "a"), (1, "b"), (2, "c")]
    assert rungs_from(ladder, 1) == [(1, "b"), (2, "c")]
    assert rungs_from(ladder, 9) == [(2, "c")]
    assert rungs_from((), 0) == []


def test_the_last_model_has_all_the_time_there_is_and_others_a_share_of_it() -> None:
    assert patience_s(below=0, left_s=3600.0) == 3600.0
    assert patience_s(below=1, left_s=10.0) == 5.0
    assert patience_s(below=2, left_s=9.0) == 3.0
    assert patience_s(below=1, left_s=3600.0) == PATIENCE_S
    assert patience_s(below=1, left_s=-1.0) == 0.0
