"""The joint question: one model of cost over num_envs, horizon and batch size, and what may be claimed from it. Pure.

In: costs of single trials, each at one setting (num_envs, horizon, batch size). Out: a surface, profiles along an axis, and claims.

observed   costs of records: seconds to the target, or seconds per frame; some are only lower bounds
prior      what is assumed of the surface before any trial
posterior  the surface given the trials, with amplitude and noise known
surface    amplitude and noise by likelihood; chances, credible sets and draws
model      what a surface says of each setting
profile    along one axis, with the others at their best
thompson   which setting a search tries next
selection  which settings have fresh seeds
fresh      what fresh seeds show about them; dunnett has its critical values
rounds     their records by setting and round, up to the last look
claims     which of them are named, also on smaller cards
thresholds from which value of an axis on doubling saves too little: fresh seeds and model must agree
frames     seconds as frames times seconds per frame
transfer   seconds from another arm's frames and an arm's own seconds per frame
planned    these, as they were before any fresh seed
alike      whether two arms need as many frames
regret     what a shorter search would have lost
shape      what figures show of the surface
answer     all of it for one arm

A cost is a natural logarithm throughout, and less is better.
"""
